"""Writes of a step to state that outlives the step: attributes, globals, and elements of their containers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from graphsafe.scan.domain.events import span_of
from graphsafe.scan.domain.held import is_free, moments, weights
from graphsafe.scan.domain.numbers import const_of, entry
from graphsafe.scan.domain.state_log import Write
from graphsafe.scan.domain.values import (
    NONE,
    Dict,
    Instance,
    Number,
    Sequence,
    Tensor,
    Value,
    as_tensor,
    describe,
    named,
    options,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import source_text
from graphsafe.scan.state import first_step, straight_line
from graphsafe.scan.state.cached_entries import may_drop_entries
from graphsafe.scan.state.filled_once import is_past_maximum
from graphsafe.scan.state.made_anew import held_tensors, is_made_anew
from graphsafe.scan.state.provenance import (
    bound_expression,
    identified_by,
    is_fresh_result,
    is_lazy,
    is_made_along,
    is_made_before_loops,
    is_part_of_object,
    is_plain_parameter,
    is_rare,
    is_remade,
    sources,
)
from graphsafe.scan.state.put_back import are_undone, is_put_back
from graphsafe.scan.state.replaced_values import (
    as_computed,
    converts,
    fills_if_missing,
    first_asks_form,
    grows,
    is_same_tensor,
    keeps_largest,
    keeps_what_is_there,
    merges_objects,
    puts_back,
    reads_by_name,
    reads_old,
)
from graphsafe.scan.symbols.index import dotted

_MAKES_FROM_PARTS = re.compile(r"(?:^|\b|\._)(?:dict|replace|evolve|update|[A-Z]\w*)$")
"Matches the functions whose keywords name parts of the result."


def set_attribute(frame: Frame, node: ast.Call, owner: Value, name: str | None, value: Value) -> None:
    """Record `setattr(owner, name, value)`. `name` is None if the source does not show it."""
    holder, _, written = node.args
    for option in options(owner):
        if type(option) is not Instance:
            if isinstance(written, ast.Call) and (dotted(written.func) or "").endswith("Parameter"):
                _write_weights(frame, weights(""), ast.unparse(node), value, node)  # of some module
            continue
        if name is not None and not frame.hot:
            frame.attributes.record(option.ref, name, value)
        elif name is not None:
            write_attribute(frame, option, name, dotted(holder) or "…", value, node, written)
        elif frame.hot and reads_by_name(frame, written, holder, node.args[1]):
            # The name of the attribute is not known. The attribute is assumed to have had a similar value before.
            key, text = f"{option.ref}.{ast.unparse(node.args[1])}", ast.unparse(node)
            write(frame, key, text, value, value, node, written, augmented=True, borrowed=_is_passing(option))


def _is_passing(owner: Instance) -> bool:
    """Return whether the next step has a different object, because each step receives or creates its own object."""
    return owner.step or owner.made


def write_attribute(
    frame: Frame,
    owner: Instance,
    name: str,
    holder: str,
    value: Value,
    node: ast.AST,
    written: ast.expr | None,
    augmented: bool = False,
) -> None:
    """Record that hot code assigns `holder.name`."""
    key = frame.attributes.key(owner.ref, name)
    _write_parts(frame, key, f"{holder}.{name}", value, node, written, _is_passing(owner))
    before = frame.attributes.initial(owner, name)
    was, now = as_tensor(before)[0] if before is not None else None, as_tensor(value)[0]
    is_moved = was is not None and now is not None and not was.pinned and (was.where, now.where) == ("host", "device")
    if is_moved and was is not None and converts(written, f"{holder}.{name}"):
        # `self.table = self.table.to(x.device)` copies only in the first step.
        how = "literal" if was.literal else "blocking"
        frame.emit("Transfer", how, written or node, level="note", value=describe(was))
    write(
        frame,
        key,
        f"{holder}.{name}",
        value,
        before,
        node,
        written,
        augmented=augmented,
        borrowed=_is_passing(owner),
        lasting=outlasts(frame, owner, holder),
        made=owner.made,
        replaces=is_made_anew(frame, before, value, written),
        # A module, or an object whose constructor makes tensors, such as a cache that callers keep.
        handed=(owner.declared and owner.step and not owner.made)
        and (frame.attributes.is_module(owner.ref) or any(tensor.fresh for tensor in held_tensors(frame, owner))),
    )


def _write_parts(
    frame: Frame, key: str, text: str, value: Value, node: ast.AST, written: ast.expr | None, borrowed: bool
) -> None:
    """Record the parts of a new object, named tuple or dict that are computed from the same parts of the old value:
    `self.clock = replace(self.clock, tick=self.clock.tick + 1)`."""
    for name, part in parts(frame, value, bound_expression(frame, written)):
        of, named_part = f"{key}.{name}", f"{text}.{name}"
        if type(value) is Instance:
            of = frame.attributes.key(value.ref, name)
        elif type(value) is Dict:
            of, named_part = entry(key, name), f"{text}[{name!r}]"
        made = frame.evaluate_quietly(part)
        # A plain `scale=old.scale` passes the number on unchanged.
        if type(made) is Number and of in made.state and dotted(part) is None:
            write(frame, of, named_part, made, None, node, part, augmented=True)
        elif as_tensor(made)[1] and reads_old(frame, part, named_part):
            write(frame, of, named_part, made, None, node, part, borrowed=borrowed)


def parts(frame: Frame, value: Value, written: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    """Yield the named parts of an object, named tuple or dict with their expressions, as far as a call or a literal
    shows them."""
    if isinstance(written, ast.Dict):
        for key, part in zip(written.keys, written.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, part
    elif isinstance(written, ast.Call) and _MAKES_FROM_PARTS.search(source_text(written.func)):
        names = frame.attributes.field_names(value.ref) if type(value) is Instance else getattr(value, "names", ())
        if not isinstance(written.func, ast.Attribute):
            yield from zip(names, written.args, strict=False)
        yield from ((keyword.arg, keyword.value) for keyword in written.keywords if keyword.arg is not None)


def outlasts(frame: Frame, owner: Instance, holder: str) -> bool:
    """Return whether all steps use the same object under the name `holder`."""
    root = holder.partition(".")[0]
    return (
        root == "self"
        or frame.attributes.is_module(owner.ref)
        or is_plain_parameter(frame, root)
        or is_made_before_loops(frame, root)
        or is_part_of_object(frame, root)
    )


def write_in_module(frame: Frame, module: ast.expr, target: ast.expr, value: Value, node: ast.AST) -> None:
    """Record that an attribute of a PyTorch module is bound to another tensor: `self.head.weight = nn.Parameter(w)`.

    The write counts as a write to the attribute that holds the module.
    """
    if not isinstance(module, ast.Attribute):
        return
    for option in options(frame.evaluate_quietly(module.value)):
        if type(option) is Instance:
            write_part(frame, module, frame.attributes.key(option.ref, module.attr), target, value, node)


def write_part(frame: Frame, held: ast.expr, key: str, target: ast.expr, value: Value, node: ast.AST) -> None:
    """Record that the value of the attribute `key` is bound to other memory: `layer.up.data = up`."""
    if not (frame.hot or frame.between) or not isinstance(held, ast.Attribute):
        return
    for option in options(frame.evaluate_quietly(held.value)):
        if type(option) is Instance:
            write(
                frame,
                key,
                ast.unparse(target),
                value,
                frame.evaluate_quietly(held),
                node,
                getattr(node, "value", None),
                borrowed=_is_passing(option),
                lasting=outlasts(frame, option, dotted(held.value) or ""),
            )
            return


def write_weights(frame: Frame, module: Value, text: str, value: Value, node: ast.AST) -> None:
    """Record that all parameters of a module are bound to other memory: `for p in model.parameters(): p.data = …`."""
    for option in options(module):
        if type(option) is Instance and frame.attributes.is_module(option.ref):
            _write_weights(frame, weights(option.ref), text, value, node)


def write_moments(frame: Frame, kind: str, node: ast.Call) -> None:
    """Record that the state of an optimizer is bound to other memory: `optimizer.load_state_dict(saved)`."""
    owner = frame.env.get("self")
    if frame.hot or type(owner) is not Instance or not owner.declared:  # users may call a method before the capture
        _write_weights(frame, moments(kind), ast.unparse(node), NONE, node)


def _write_weights(frame: Frame, key: str, text: str, value: Value, node: ast.AST) -> None:
    if frame.hot or frame.between:
        write(frame, key, text, value, Tensor(), node, None, lasting=True, replaces=True)


def write_global(
    frame: Frame, target: ast.Name, value: Value, node: ast.AST, written: ast.expr | None, augmented: bool
) -> None:
    """Bind a name that the function declares `global`, and record the write."""
    frame.env[target.id] = named(value, target.id)
    if frame.hot:
        before = frame.engine.globals.value(frame.file, target.id)
        key = f"{frame.path}::{target.id}"
        write(frame, key, target.id, value, before, node, written, augmented=augmented, lasting=True)


def write_nonlocal(
    frame: Frame, name: str, value: Value, node: ast.AST, written: ast.expr | None, augmented: bool
) -> None:
    """Record an assignment to a `nonlocal` name in a closure that outlives the step."""
    write(frame, f"{frame.cells}.{name}", name, value, None, node, written, augmented=augmented)


def write_item(
    frame: Frame,
    holder: str,
    held: Value | None,
    target: ast.Subscript,
    key: Value,
    value: Value,
    node: ast.AST,
    augmented: bool,
    written: ast.expr | None,
    borrowed: bool = False,
    lasting: bool = False,
) -> None:
    """Record `holder[key] = value`: with a known key as a write to an attribute, otherwise as a new entry."""
    text = ast.unparse(target)
    if any(identified_by(frame, target.slice)) and not (written is not None and reads_old(frame, written, text)):
        # An entry whose key is a tensor's address is like an attribute of that tensor, which a step may fill once.
        return
    before: Value | None = None
    name = const_of(key)
    is_entry = type(held) is Dict and isinstance(name, str)
    if type(held) is Dict and is_entry:
        before = dict(held.items).get(name)
        holder = entry(holder, name)
    elif type(held) is Sequence and held.kind == "list" and as_tensor(held.elem)[0] is not None:
        before = held.elem
    if is_same_tensor(frame, value, written, text):
        return
    # If the source shows the key of an entry, the entry is treated like an attribute that is set later.
    keyed = before is None and not is_entry
    replaces = keyed and type(held) is Dict and as_tensor(held.elem)[0] is not None
    write(
        frame,
        holder,
        text,
        value,
        before,
        node,
        # The whole right side is passed: in a swap of two entries, the old value is in the other part of the tuple.
        getattr(node, "value", None),
        augmented=augmented,
        keyed=keyed,
        borrowed=borrowed,
        lasting=lasting,
        replaces=replaces,
    )


def write(
    frame: Frame,
    key: str,
    text: str,
    value: Value,
    before: Value | None,
    node: Any,
    written: ast.expr | None,
    *,
    augmented: bool = False,
    keyed: bool = False,
    borrowed: bool = False,
    lasting: bool = False,
    made: bool = False,
    replaces: bool = False,
    handed: bool = False,
) -> None:
    """Record an assignment. `written` is the expression of the new value, if the code shows it."""
    assigned = bound_expression(frame, written)
    if assigned is not written and puts_back(assigned, text):
        return
    if is_same_tensor(frame, value, written, text) or are_undone(frame, node):
        return
    value = as_computed(frame, value, written, text)
    reads_self = augmented or (assigned is not None and reads_old(frame, assigned, text))
    base = text.partition("[")[0]
    lazy = (
        is_lazy(frame, text, written if keyed else None)
        or keeps_what_is_there(assigned, text)
        or (reads_self and fills_if_missing(frame, assigned, text))
    )
    outgrown = first_step.too_small(frame, base)
    chosen = isinstance(assigned, ast.Subscript) and isinstance(assigned.value, ast.Attribute)
    may_reset = not (reads_self or keyed or lazy or chosen) and is_free(value)
    resets = may_reset and (straight_line.contains(frame, node) or None)
    if resets and first_asks_form(frame, assigned, text):
        frame.engine.effects.forget_read(key)
    frame.engine.note(
        Write(
            key=key,
            text=text,
            path=frame.path,
            function=frame.function,
            span=span_of(node),
            value=value,
            before=before,
            augmented=augmented,
            reads_self=reads_self,
            lazy=lazy,
            keyed=keyed,
            # A graph keeps the old value even if a loop changes the attribute only occasionally.
            guard=frame.guard or ("an exception handler" if frame.unlikely > frame.seldom else None),
            compile_test=frame.compile_test,
            grows=not (made and is_fresh_result(frame, text)) and (outgrown or grows(frame, assigned, text)),
            outgrown=outgrown,
            past_maximum=is_past_maximum(frame) or merges_objects(assigned, text),
            # A capture binds the names of its outputs only once, to memory that every replay writes.
            borrowed=borrowed
            or (frame.captured and not reads_self)
            or is_fresh_result(frame, text)
            or is_put_back(frame, text),
            lasting=lasting,
            alone=all(test.alone for test in frame.lazy),
            refilled=bool(frame.lazy) and first_step.is_refilled(frame, text),
            rare=is_rare(frame) and (not reads_self or keeps_largest(assigned, text)),
            remade=not reads_self and is_remade(frame, text),
            settled=converts(assigned, text) or is_made_along(frame, text),
            between=not frame.hot,
            replaces=replaces,
            handed=handed,
            dropped=not (lazy and keyed) or may_drop_entries(frame, base),
            sources=sources(frame, assigned) if lazy else frozenset(),
            continues=reads_self and straight_line.continues(frame, node, text),
            resets=resets,
            chosen=chosen,
        )
    )
