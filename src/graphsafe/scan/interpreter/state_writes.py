"""What a step writes to state that outlives it: attributes, globals, and elements of containers that these hold."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from graphsafe.scan.checks import first_step
from graphsafe.scan.checks.cached_entries import may_drop_entries
from graphsafe.scan.checks.provenance import (
    bound_expression,
    identifies_object,
    is_born_here,
    is_lazy,
    is_made_along,
    is_put_back,
    is_rare,
    sources,
)
from graphsafe.scan.checks.replaced_values import (
    constructs,
    converts,
    grows,
    keeps_largest,
    keeps_what_is_there,
    puts_back,
    reads_by_name,
    reads_old,
)
from graphsafe.scan.domain.events import span_of
from graphsafe.scan.domain.held import entry
from graphsafe.scan.domain.state_log import Write
from graphsafe.scan.domain.values import Dict, Instance, Number, Sequence, Value, as_tensor, named, options
from graphsafe.scan.interpreter.call_frame import Frame
from graphsafe.scan.symbols.index import dotted

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.engine import Engine


def set_attribute(engine: Engine, frame: Frame, node: ast.Call, owner: Value, name: str | None, value: Value) -> None:
    """`setattr(owner, name, value)`; None for a name that is chosen as the code runs."""
    holder, _, written = node.args
    for option in options(owner):
        if type(option) is not Instance:
            continue
        if name is not None and not frame.hot:
            engine.attributes.record(option.ref, name, value)
        elif name is not None:
            write_attribute(engine, frame, option, name, dotted(holder) or "…", value, node, written)
        elif frame.hot and reads_by_name(written, holder, node.args[1]):
            # Whatever its name: it held such a value before.
            key, text = f"{option.ref}.{ast.unparse(node.args[1])}", ast.unparse(node)
            write(engine, frame, key, text, value, value, node, written, augmented=True, borrowed=_is_passing(option))


def _is_passing(owner: Instance) -> bool:
    """Whether an object is another one in the next step: what a step is given, and what it makes."""
    return owner.step or owner.made


def write_attribute(
    engine: Engine,
    frame: Frame,
    owner: Instance,
    name: str,
    holder: str,
    value: Value,
    node: ast.AST,
    written: ast.expr | None,
    augmented: bool = False,
) -> None:
    """Hot code assigns `holder.name`."""
    key = engine.attributes.key(owner.ref, name)
    before = engine.attributes.initial(owner.ref, name)
    text = f"{holder}.{name}"
    write(engine, frame, key, text, value, before, node, written, augmented=augmented, borrowed=_is_passing(owner))


def write_global(
    engine: Engine,
    frame: Frame,
    target: ast.Name,
    value: Value,
    node: ast.AST,
    written: ast.expr | None,
    augmented: bool,
) -> None:
    """A function assigns what it calls `global`."""
    frame.env[target.id] = named(value, target.id)
    if frame.hot:
        before = engine.globals.value(frame.file, target.id)
        key = f"{frame.path}::{target.id}"
        write(engine, frame, key, target.id, value, before, node, written, augmented=augmented)


def write_nonlocal(
    engine: Engine, frame: Frame, name: str, value: Value, node: ast.AST, written: ast.expr | None, augmented: bool
) -> None:
    """A closure that outlives the step assigns what it calls `nonlocal`."""
    write(engine, frame, f"{frame.cells}.{name}", name, value, None, node, written, augmented=augmented)


def write_item(
    engine: Engine,
    frame: Frame,
    holder: str,
    held: Value | None,
    target: ast.Subscript,
    key: Value,
    value: Value,
    node: ast.AST,
    augmented: bool,
    borrowed: bool = False,
) -> None:
    """`holder[key] = value`: what is known to be there is replaced, as an attribute is; else a table is filled."""
    if identifies_object(frame, target.slice):
        # An entry keyed by one tensor's address is like an attribute of that tensor.
        return
    before: Value | None = None
    if type(held) is Dict and type(key) is Number and isinstance(key.const, str):
        before = dict(held.items).get(key.const)
        holder = entry(holder, key.const)
    elif type(held) is Sequence and held.kind == "list" and as_tensor(held.elem)[0] is not None:
        before = held.elem
    written = getattr(node, "value", None)
    text = ast.unparse(target)
    # Under a name that the source shows it is like an attribute that is set later.
    keyed = before is None and not (type(held) is Dict and type(key) is Number and isinstance(key.const, str))
    write(
        engine, frame, holder, text, value, before, node, written, augmented=augmented, keyed=keyed, borrowed=borrowed
    )


def write(
    engine: Engine,
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
) -> None:
    """Note an assignment; `written` is the expression of the new value, where the code shows it."""
    assigned = bound_expression(frame, written)
    if assigned is not written and puts_back(assigned, text):
        return
    reads_self = augmented or (assigned is not None and reads_old(frame, assigned, text))
    base = text.partition("[")[0]
    lazy = is_lazy(frame, text, written if keyed else None) or keeps_what_is_there(assigned, text)
    guard = frame.guard or ("an exception handler" if frame.unlikely else None)
    engine.note(
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
            guard=guard,
            compile_test=frame.compile_test,
            grows=grows(frame, assigned, text) or first_step.too_small(frame, base),
            borrowed=borrowed or is_born_here(frame, text) or is_put_back(frame, text),
            alone=all(test.alone for test in frame.lazy),
            rare=converts(assigned, text)
            or is_made_along(frame, text)
            or (is_rare(frame) and (not reads_self or keeps_largest(assigned, text))),
            constructed=constructs(assigned),
            dropped=not (lazy and keyed) or may_drop_entries(engine, frame, base),
            sources=sources(engine, frame, assigned) if lazy else frozenset(),
        )
    )


__all__ = ["set_attribute", "write", "write_attribute", "write_global", "write_item"]
