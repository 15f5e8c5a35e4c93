"""Assignments: the names that they bind, and their effects on state that outlives the step."""

from __future__ import annotations

import ast
from collections.abc import Sequence as Seq

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import dataclass, replace
from graphsafe.scan.domain.held import FROZEN_OPTIONS, PARAM_GROUPS, RATES, as_declared
from graphsafe.scan.domain.joins import element_of, join, sequence
from graphsafe.scan.domain.naming import bound_to, known_by, makes_loader, placed
from graphsafe.scan.domain.numbers import const_of
from graphsafe.scan.domain.record import REPLACED_FORWARD
from graphsafe.scan.domain.values import (
    NUMBER,
    UNKNOWN,
    ClassValue,
    Dict,
    Function,
    Instance,
    NoneValue,
    ProjectModule,
    RuntimeObject,
    Sequence,
    Tensor,
    Unknown,
    Value,
    as_tensor,
    named,
    options,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards import graph_attributes
from graphsafe.scan.hazards.branch_effects import may_be_tensor
from graphsafe.scan.hazards.weights import other_weights
from graphsafe.scan.interpreter import members, operators, shared_state
from graphsafe.scan.interpreter.annotations import annotated
from graphsafe.scan.interpreter.losses import as_loss
from graphsafe.scan.interpreter.subscripts import index_of, subscript_store
from graphsafe.scan.models import protocols
from graphsafe.scan.models.functions import torch_functions
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.state import filled_once, grown_entries, own_changes, writes
from graphsafe.scan.state.first_step import FIRST_STEP
from graphsafe.scan.state.provenance import is_table_of_flag
from graphsafe.scan.state.replaced_values import keeps_what_is_there
from graphsafe.scan.state.writes import write_item
from graphsafe.scan.symbols.index import dotted


def plain(frame: Frame, node: ast.Assign) -> None:
    conditions, unlikely = frame.conditions, frame.unlikely
    if frame.hot and filled_once.converts_once(frame, node):
        frame.guards.append(FIRST_STEP)
    elif frame.hot and filled_once.converts_given(frame, node):
        frame.unlikely += 1
    value = frame.evaluate(node.value)
    frame.leave(conditions)
    frame.unlikely = unlikely
    frame.touches_device = frame.touches_device or may_be_tensor(value)
    if frame.captured and type(value) is Unknown and isinstance(node.value, ast.Call):
        # If an unknown model is called inside a capture, it returns device tensors, because its inputs were copied to
        # the device.
        given = map(frame.evaluate_quietly, node.value.args)
        if value.device or any(type(option) is Unknown for option in given):
            value = Tensor(step=value.step)
    for target in node.targets:
        assign(frame, target, value, node)


@memoize_on_node
def as_branch(node: ast.Assign) -> ast.If | None:
    """Return the equivalent statement `if test: self.h = new` for `self.h = new if test else self.h`. Return None for
    any other assignment."""
    value, target = node.value, node.targets[0]
    is_state = len(node.targets) == 1 and isinstance(target, (ast.Attribute, ast.Subscript))
    if not isinstance(value, ast.IfExp) or not is_state or keeps_what_is_there(value, ast.unparse(target)):
        return None
    keeps_first, keeps_last = (ast.unparse(part) == ast.unparse(target) for part in (value.body, value.orelse))
    if not (keeps_first or keeps_last):
        return None
    made: ast.stmt = ast.copy_location(ast.Assign([target], value.orelse if keeps_first else value.body), node)
    body: list[ast.stmt] = [ast.Pass()] if keeps_first else [made]
    return ast.copy_location(ast.If(value.test, body, [made] if keeps_first else []), value)


def annotated_assignment(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is None:
        return
    value = frame.evaluate(node.value)
    frame.touches_device = frame.touches_device or may_be_tensor(value)
    is_empty = (isinstance(value, Sequence) and value.items == ()) or (isinstance(value, Dict) and not value.items)
    if type(value) is Unknown or is_empty:
        declared = annotated(frame.engine, frame.file, node.annotation)
        if type(value) is Unknown and type(declared) is not Unknown:
            value = placed(as_declared(declared, value), dotted(node.target) or "", value.step, "any")
        elif isinstance(value, (Sequence, Dict)) and isinstance(declared, (Sequence, Dict)):
            # The container is still empty. Its annotation describes its later elements.
            value = replace(value, elem=placed(declared.elem, dotted(node.target) or "", False, "any"))
    assign(frame, node.target, value, node)
    if type(value) is NoneValue and isinstance(node.target, ast.Attribute) and not frame.hot:
        # The constructor leaves the attribute None, and another method will set it.
        declared = placed(annotated(frame.engine, frame.file, node.annotation), node.target.attr, False, "any")
        owner = frame.evaluate(node.target.value)
        if type(owner) is Instance:
            frame.attributes.expect(owner.ref, node.target.attr, declared)


def augmented(frame: Frame, node: ast.AugAssign) -> None:
    target = node.target
    if isinstance(target, ast.Subscript):
        held = frame.evaluate(target)
        value = _combined(frame, node, held)
        if as_tensor(held)[0] is None:
            assign(frame, target, _perhaps_in_place(held, value), node, augmented=True)
        return
    load: ast.expr
    if isinstance(target, ast.Name):
        load = ast.copy_location(ast.Name(target.id, ast.Load()), target)
    else:
        load = ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    held = frame.evaluate(load)
    value = _combined(frame, node, held)
    tensor, certain = as_tensor(held)
    if tensor is not None and certain:
        # An augmented assignment modifies a tensor in place, so the tensor's address stays the same.
        if isinstance(target, ast.Name):
            frame.env[target.id] = held
        return
    if frame.hot and isinstance(target, ast.Attribute) and type(held) is Sequence and held.kind == "list":
        owner = frame.evaluate_quietly(target.value)
        if type(owner) is Instance and isinstance(node.op, ast.Add):
            key, added = frame.attributes.key(owner.ref, target.attr), element_of(frame.evaluate_quietly(node.value))
            own_changes.lengthened(frame, node, key, dotted(target) or target.attr, added)
    assign(frame, target, _perhaps_in_place(held, value), node, augmented=True)


def _perhaps_in_place(held: Value, value: Value) -> Value:
    """Return the result of `held += …`. If the old value is unknown, it may be a tensor, which is then modified in
    place."""
    return replace(value, certain=False) if type(held) is Unknown and type(value) is Tensor else value


def _combined(frame: Frame, node: ast.AugAssign, held: Value) -> Value:
    """Return the value of `held += …`."""
    added = frame.evaluate(node.value)
    frame.touches_device = frame.touches_device or may_be_tensor(added)
    return operators.binary(frame, node, held, added)


def assign(frame: Frame, target: ast.expr, value: Value, node: ast.AST, augmented: bool = False) -> None:
    """Assign `value` to a target in the statement `node`."""
    _Assignment(frame, value, node, getattr(node, "value", None), augmented).to(target)


@dataclass(frozen=True, slots=True)
class _Assignment:
    """The assignment of one value, to any number of targets."""

    frame: Frame
    value: Value
    node: ast.AST
    "The statement."
    written: ast.expr | None
    "The expression of the assigned value, if the code shows it."
    augmented: bool = False

    def to(self, target: ast.expr) -> None:
        frame = self.frame
        if isinstance(target, ast.Name):
            self._name(target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts)
        elif isinstance(target, ast.Attribute):
            self._attribute(target, frame.evaluate(target.value))
        elif isinstance(target, ast.Subscript):
            by_name = self._by_name(target)
            if by_name is not None:
                self._attribute(*by_name)
                return
            owner = frame.evaluate(target.value)
            is_done = self._put_by_method(target, owner)
            if not is_done and not subscript_store(frame, target, owner, self.value, self.node):
                self._item(target, owner)
        elif isinstance(target, ast.Starred):
            assign(frame, target.value, sequence("list", [self.value]), self.node)

    def _name(self, target: ast.Name) -> None:
        frame, name, value = self.frame, target.id, self.value
        if name in frame.globals:
            writes.write_global(frame, target, value, self.node, self.written, self.augmented)
        else:
            if name in frame.nonlocals and frame.hot:
                writes.write_nonlocal(frame, name, value, self.node, self.written, self.augmented)
            known = as_loss(frame, name, value)
            if type(known) is Unknown and self.written is not None and makes_loader(self.written, name):
                known = known_by(known, name)
            frame.env[name] = bound_to(known, name)

    def _by_name(self, target: ast.Subscript) -> tuple[ast.Attribute, Instance] | None:
        """Return the attribute that `self.__dict__["h"]`, `vars(self)["h"]` or `module._buffers["h"]` stands for, and
        its object."""
        holder, name = target.value, target.slice
        if isinstance(holder, ast.Attribute) and holder.attr in ("__dict__", "_buffers", "_parameters"):
            made = holder.value
        elif isinstance(holder, ast.Call) and dotted(holder.func) == "vars" and len(holder.args) == 1:
            made = holder.args[0]
        else:
            return None
        owner = self.frame.evaluate(made)
        if type(owner) is not Instance or not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            return None
        is_table = isinstance(holder, ast.Attribute) and holder.attr != "__dict__"
        if is_table and not self.frame.attributes.is_module(owner.ref):
            return None  # in a class that is not a module, a table of this name may have another purpose
        return ast.copy_location(ast.Attribute(made, name.value, ast.Store()), target), owner

    def _put_by_method(self, target: ast.Subscript, owner: Value) -> bool:
        """Call the `__setitem__` of the class of `owner`. Return False if the class defines none."""
        frame = self.frame
        if type(owner) is not Instance or frame.project.find_method(owner.ref, "__setitem__") is None:
            return False
        arguments = Arguments((index_of(frame, target), self.value))
        return protocols.called(frame, self.node, owner, "__setitem__", arguments=arguments) is not None

    def _unpack(self, targets: list[ast.expr]) -> None:
        frame, value, node = self.frame, self.value, self.node
        single = options(value)
        items = single[0].items if len(single) == 1 and type(single[0]) is Sequence else None
        display = getattr(node, "value", None)
        starred = next((i for i, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
        shares = None if items is None else _shares(items, len(targets), starred)
        parts: list[ast.expr | None] = [display] * len(targets)
        if starred is None and isinstance(display, (ast.Tuple, ast.List)) and len(display.elts) == len(targets):
            parts = [*display.elts]
        for i, target in enumerate(targets):
            inner = target.value if isinstance(target, ast.Starred) else target
            if shares is not None:
                _Assignment(frame, shares[i], node, parts[i]).to(inner)
            else:
                # If the number of items differs from the number of targets, the annotation that promised these items is
                # wrong.
                item = UNKNOWN if items is not None else element_of(value)
                assign(frame, inner, Sequence("list", None, item) if i == starred else item, node)

    def _attribute(self, target: ast.Attribute, owner: Value) -> None:
        frame, node, value, name = self.frame, self.node, self.value, target.attr
        if name == "forward":
            torch_functions.handed_over(frame.engine, value, REPLACED_FORWARD)
        holder = dotted(target.value) or "…"
        for option in options(owner):
            if type(option) is Tensor and name == "data" and not self.augmented:
                self._give_memory(target, option)
            if type(option) is RuntimeObject and option.kind == "module":
                writes.write_in_module(frame, target.value, target, value, node)
            if type(option) is ClassValue or type(option) is ProjectModule:
                self._shared(target, option, value)
            if type(option) is not Instance:
                continue
            setter = frame.project.find_method(option.ref, f"{name}.setter")
            if setter is not None:
                frame.call(node, Function(setter, option), Arguments((value,)))
                return
            if members.set_by_descriptor(frame, node, option, name, value):
                return
            if not frame.hot:
                frame.attributes.record(option.ref, name, value)
            if frame.hot or frame.between:
                writes.write_attribute(frame, option, name, holder, value, node, self.written, self.augmented)
            if frame.hot and not self.augmented:
                graph_attributes.rebound(frame, option, name, holder, value, node)
            if frame.hot and type(value) is Tensor:
                value = replace(value, attr=frame.attributes.key(option.ref, name))
        chain = dotted(target)
        if chain is not None:
            # Later lines of this function read the value that was just written, and not one that other methods assign.
            frame.env[chain] = named(value, chain)

    def _shared(self, target: ast.Attribute, owner: ClassValue | ProjectModule, value: Value) -> None:
        """Record that hot code assigns `Class.name` or `module.name`."""
        frame, node = self.frame, self.node
        key = shared_state.key_of(frame, owner, target.attr) if frame.hot else None
        if key is not None:
            before = frame.evaluate_quietly(ast.Attribute(target.value, target.attr, ast.Load()))
            text, augmented = ast.unparse(target), self.augmented
            writes.write(frame, key, text, value, before, node, self.written, augmented=augmented, lasting=True)

    def _give_memory(self, target: ast.Attribute, owner: Tensor) -> None:
        """Record `p.data = value` if `p` is an attribute's tensor or a parameter of a module."""
        frame, value = self.frame, self.value
        if frame.hot and self.written is not None and _gets_new_memory(target, owner, value, self.written):
            frame.emit("AttrWrite", "rebound", target, "likely" if as_tensor(value)[1] else "possible")
        if owner.attr is not None:
            writes.write_part(frame, target.value, owner.attr, target, value, self.node)
        else:
            held = target.value.value if isinstance(target.value, ast.Subscript) else target.value
            module = other_weights.turned_over(frame.node).get(dotted(held) or "") if frame.node is not None else None
            if module is not None:
                holder = frame.evaluate_quietly(ast.parse(module, mode="eval").body)
                writes.write_weights(frame, holder, ast.unparse(target), value, self.node)

    def _item(self, target: ast.Subscript, owner: Value) -> None:
        """Perform `owner[key] = value` if the owner is not a tensor."""
        frame = self.frame
        key = frame.evaluate(target.slice)
        if any(type(option) is Dict and (option.held_by or "").endswith(PARAM_GROUPS) for option in options(owner)):
            frame.use_number(self.value, "operand", target)
            if frame.hot and const_of(key) in FROZEN_OPTIONS:
                text = ast.unparse(target)
                writes.write(frame, RATES, text, self.value, NUMBER, self.node, self.written, lasting=True)
        holder = dotted(target.value) or ""
        grown_entries.put(frame, target, self.value)
        for option in options(owner):
            if type(option) is Dict or type(option) is Sequence:
                self._put(target, option, key)
            elif type(option) is Unknown and frame.hot and is_table_of_flag(frame, holder):
                self._write_item(f"{frame.ref}.{holder}", None, target, key)

    def _put(self, target: ast.Subscript, container: Dict | Sequence, key: Value) -> None:
        """Put a value into a container, and bind the container's name to the result."""
        frame, holder = self.frame, target.value
        updated = _with_item(container, key, self.value)
        if isinstance(holder, ast.Attribute):
            if dotted(holder) is not None:
                self._put_into_attribute(target, holder, updated, key)
            return
        is_local = isinstance(holder, ast.Name) and holder.id in frame.env
        if isinstance(holder, ast.Name) and is_local:
            frame.env[holder.id] = updated
        if not frame.hot:
            return
        if container.held_by is not None:
            lasting = isinstance(holder, ast.Name) and not is_local
            self._write_item(container.held_by, container, target, key, lasting=lasting)
        elif isinstance(holder, ast.Name) and not is_local:
            self._write_item(f"{frame.path}::{holder.id}", None, target, key)

    def _put_into_attribute(self, target: ast.Subscript, holder: ast.Attribute, updated: Value, key: Value) -> None:
        """Perform `self.table[key] = value`."""
        frame = self.frame
        instance = frame.evaluate(holder.value)
        if type(instance) is ClassValue or type(instance) is ProjectModule:
            shared = frame.evaluate_quietly(holder)
            if isinstance(shared, (Dict, Sequence)) and shared.held_by is not None:
                self._write_item(shared.held_by, shared, target, key, lasting=True)
        if type(instance) is not Instance:
            return
        if not frame.hot:
            frame.attributes.record(instance.ref, holder.attr, updated)
        if not (frame.hot or frame.between):
            return
        attribute = frame.attributes.key(instance.ref, holder.attr)
        held = frame.attributes.initial(instance, holder.attr)
        lasting = writes.outlasts(frame, instance, dotted(holder.value) or "")
        self._write_item(attribute, held, target, key, instance.step or instance.made, lasting)

    def _write_item(
        self,
        table: str,
        held: Value | None,
        target: ast.Subscript,
        key: Value,
        borrowed: bool = False,
        lasting: bool = False,
    ) -> None:
        value, node = self.value, self.node
        write_item(self.frame, table, held, target, key, value, node, self.augmented, self.written, borrowed, lasting)


def _shares(items: tuple[Value, ...], targets: int, starred: int | None) -> Seq[Value] | None:
    """Return the item for each target, or None if the numbers of items and targets differ. The target at `starred` gets
    a list."""
    if starred is None:
        return items if len(items) == targets else None
    end = len(items) - (targets - starred - 1)
    return [*items[:starred], sequence("list", items[starred:end]), *items[end:]] if end >= starred else None


def _gets_new_memory(target: ast.Attribute, owner: Tensor, value: Value, written: ast.expr) -> bool:
    """Return whether a tensor that existed before the step gets new memory, computed from its own values: `p.data =
    p.data - rate * p.grad`."""
    holder = dotted(target.value)
    made, _ = as_tensor(value)
    # If the step receives or makes the tensor, it is a new tensor in each step anyway.
    if owner.fresh or owner.step or owner.where == "host" or made is None or not made.fresh or holder is None:
        return False
    return any(isinstance(inner, ast.expr) and dotted(inner) == holder for inner in ast.walk(written))


def _with_item(container: Dict | Sequence, key: Value, value: Value) -> Value:
    if type(container) is Sequence:
        return Sequence(container.kind, None, join(container.elem, value), container.held_by)
    assert type(container) is Dict
    items = dict(container.items)
    if isinstance(const_of(key), (str, int)):
        items[const_of(key)] = value
    elem = value if type(container.elem) is Unknown and not container.items else join(container.elem, value)
    return Dict(tuple(items.items()), elem, container.held_by)
