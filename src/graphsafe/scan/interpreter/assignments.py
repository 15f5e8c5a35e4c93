"""Assignments: what they bind, and what they do to state that outlives the step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import element_of, join, sequence
from graphsafe.scan.domain.naming import bound_to, placed
from graphsafe.scan.domain.record import REPLACED_FORWARD
from graphsafe.scan.domain.values import (
    UNKNOWN,
    Dict,
    Function,
    Instance,
    NoneValue,
    Number,
    Sequence,
    Tensor,
    Unknown,
    Value,
    as_tensor,
    named,
    options,
)
from graphsafe.scan.interpreter import members, operators, state_writes
from graphsafe.scan.interpreter.annotations import annotated
from graphsafe.scan.interpreter.call_frame import Frame
from graphsafe.scan.interpreter.state_writes import write_item
from graphsafe.scan.interpreter.subscripts import subscript_store
from graphsafe.scan.models import torch_functions
from graphsafe.scan.symbols.index import dotted

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.engine import Engine


def plain(engine: Engine, frame: Frame, node: ast.Assign) -> None:
    value = engine.evaluate(frame, node.value)
    for target in node.targets:
        assign(engine, frame, target, value, node)


def annotated_assignment(engine: Engine, frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is None:
        return
    value = engine.evaluate(frame, node.value)
    is_empty = (isinstance(value, Sequence) and value.items == ()) or (isinstance(value, Dict) and not value.items)
    if type(value) is Unknown or is_empty:
        declared = annotated(engine, frame.file, node.annotation)
        if type(value) is Unknown and type(declared) is not Unknown:
            value = placed(declared, dotted(node.target) or "", value.step, "any")
        elif isinstance(value, (Sequence, Dict)) and isinstance(declared, (Sequence, Dict)):
            # Empty now; the annotation says what its elements will be.
            value = replace(value, elem=placed(declared.elem, dotted(node.target) or "", False, "any"))
    assign(engine, frame, node.target, value, node)
    if type(value) is NoneValue and isinstance(node.target, ast.Attribute) and not frame.hot:
        # A constructor leaves it None; another method will set it.
        declared = placed(annotated(engine, frame.file, node.annotation), node.target.attr, False, "any")
        owner = engine.evaluate(frame, node.target.value)
        if type(owner) is Instance:
            engine.attributes.expect(owner.ref, node.target.attr, declared)


def augmented(engine: Engine, frame: Frame, node: ast.AugAssign) -> None:
    target = node.target
    if isinstance(target, ast.Subscript):
        held = engine.evaluate(frame, target)
        value = operators.binary(engine, frame, node, held, engine.evaluate(frame, node.value))
        if as_tensor(held)[0] is None:
            assign(engine, frame, target, value, node, augmented=True)
        return
    load: ast.expr
    if isinstance(target, ast.Name):
        load = ast.copy_location(ast.Name(target.id, ast.Load()), target)
    else:
        load = ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    held = engine.evaluate(frame, load)
    value = operators.binary(engine, frame, node, held, engine.evaluate(frame, node.value))
    tensor, certain = as_tensor(held)
    if tensor is not None and certain:
        # In place: the storage, and so the attribute's address, stays.
        if isinstance(target, ast.Name):
            frame.env[target.id] = held
        return
    if type(held) is Unknown and type(value) is Tensor:
        # If that is a tensor it works in place, too.
        value = replace(value, certain=False)
    assign(engine, frame, target, value, node, augmented=True)


def assign(
    engine: Engine,
    frame: Frame,
    target: ast.expr,
    value: Value,
    node: ast.AST,
    augmented: bool = False,
    written: ast.expr | None = None,
) -> None:
    """`written`: the expression of the value, where it is not that of the statement `node`."""
    written = written or getattr(node, "value", None)
    if isinstance(target, ast.Name):
        if target.id in frame.globals:
            state_writes.write_global(engine, frame, target, value, node, written, augmented)
        else:
            if target.id in frame.nonlocals and frame.hot:
                state_writes.write_nonlocal(engine, frame, target.id, value, node, written, augmented)
            frame.env[target.id] = bound_to(value, target.id)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(engine, frame, target.elts, value, node)
    elif isinstance(target, ast.Attribute):
        owner = engine.evaluate(frame, target.value)
        _assign_attribute(engine, frame, target, owner, value, node, augmented, written)
    elif isinstance(target, ast.Subscript):
        owner = engine.evaluate(frame, target.value)
        if not subscript_store(engine, frame, target, owner, value, node):
            _assign_item(engine, frame, target, owner, value, node, augmented)
    elif isinstance(target, ast.Starred):
        assign(engine, frame, target.value, sequence("list", [value]), node)


def _unpack(engine: Engine, frame: Frame, targets: list[ast.expr], value: Value, node: ast.AST) -> None:
    items: tuple[Value, ...] | None = None
    single = options(value)
    if len(single) == 1 and type(single[0]) is Sequence:
        items = single[0].items
    display = getattr(node, "value", None)
    parts = display.elts if isinstance(display, (ast.Tuple, ast.List)) and len(display.elts) == len(targets) else []
    starred = next((i for i, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    for i, target in enumerate(targets):
        if items is not None and starred is None and len(items) == len(targets):
            assign(engine, frame, target, items[i], node, written=parts[i] if parts else None)
        elif items is not None and starred is not None and len(items) >= len(targets) - 1:
            after = len(targets) - starred - 1
            if i < starred:
                assign(engine, frame, target, items[i], node)
            elif i == starred:
                assert isinstance(target, ast.Starred)
                assign(engine, frame, target.value, sequence("list", items[starred : len(items) - after]), node)
            else:
                assign(engine, frame, target, items[len(items) - (len(targets) - i)], node)
        else:
            inner = target.value if isinstance(target, ast.Starred) else target
            # A length that does not fit belongs to an annotation that is wrong.
            item = UNKNOWN if items is not None else element_of(value)
            assign(engine, frame, inner, Sequence("list", None, item) if inner is not target else item, node)


def _assign_attribute(
    engine: Engine,
    frame: Frame,
    target: ast.Attribute,
    owner: Value,
    value: Value,
    node: ast.AST,
    augmented: bool,
    written: ast.expr | None,
) -> None:
    if target.attr == "forward":
        torch_functions.handed_over(engine, value, REPLACED_FORWARD)
    for option in options(owner):
        if type(option) is not Instance:
            continue
        setter = engine.project.find_method(option.ref, f"{target.attr}.setter")
        if setter is not None:
            engine.call(frame, node, Function(setter, option), Arguments((value,)))
            return
        if frame.hot:
            holder = dotted(target.value) or "…"
            state_writes.write_attribute(engine, frame, option, target.attr, holder, value, node, written, augmented)
            if type(value) is Tensor:
                value = replace(value, attr=engine.attributes.key(option.ref, target.attr))
        else:
            engine.attributes.record(option.ref, target.attr, value)
    chain = dotted(target)
    if chain is not None:
        # Read back in the same call, it is the value just written, whatever other methods assign.
        frame.env[chain] = named(value, chain)


def _assign_item(
    engine: Engine, frame: Frame, target: ast.Subscript, owner: Value, value: Value, node: ast.AST, augmented: bool
) -> None:
    key = engine.evaluate(frame, target.slice)
    holder = target.value
    if any(type(option) is Dict and option.held_by == members.PARAM_GROUPS for option in options(owner)):
        engine.use_number(frame, value, "operand", target)
    text = dotted(holder)
    for option in options(owner):
        if type(option) is Dict:
            items = dict(option.items)
            if type(key) is Number and isinstance(key.const, (str, int)):
                items[key.const] = value
            elem = value if type(option.elem) is Unknown and not option.items else join(option.elem, value)
            updated: Value = Dict(tuple(items.items()), elem, option.held_by)
        elif type(option) is Sequence:
            updated = Sequence(option.kind, None, join(option.elem, value), option.held_by)
        else:
            continue
        if isinstance(holder, ast.Name) and holder.id in frame.env:
            frame.env[holder.id] = updated
            if frame.hot and option.held_by is not None:
                write_item(engine, frame, option.held_by, option, target, key, value, node, augmented)
        elif isinstance(holder, ast.Name) and frame.hot:
            write_item(engine, frame, f"{frame.path}::{holder.id}", None, target, key, value, node, augmented)
        elif frame.hot and option.held_by is not None and not isinstance(holder, ast.Attribute):
            write_item(engine, frame, option.held_by, option, target, key, value, node, augmented)
        elif isinstance(holder, ast.Attribute) and text is not None:
            instance = engine.evaluate(frame, holder.value)
            if type(instance) is not Instance:
                continue
            if frame.hot:
                attribute = engine.attributes.key(instance.ref, holder.attr)
                held = engine.attributes.initial(instance.ref, holder.attr)
                write_item(
                    engine, frame, attribute, held, target, key, value, node, augmented, instance.step or instance.made
                )
            else:
                engine.attributes.record(instance.ref, holder.attr, updated)
