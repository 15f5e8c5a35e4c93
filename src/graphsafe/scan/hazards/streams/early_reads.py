"""Finds reads of host memory before an asynchronous copy from the device into it is complete: `y = x.to("cpu",
non_blocking=True); y.tolist()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import called_name, following, parents_in, place, viewed
from graphsafe.scan.hazards.refills import HOST_WAITS
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import elements

_READS = frozenset(
    "tolist item clone float double int long bool max min sum mean any all argmax argmin norm abs".split()
)
"Methods of a host tensor that read its elements at once."
_WAITS = HOST_WAITS | {"wait"}
"Methods after which the host may know that the copy is complete. So may methods with `sync` in their names."


def landed(frame: Frame, node: ast.Call, target: ast.expr | None = None) -> None:
    """Emit an event if the host reads the result of an asynchronous copy and certainly waits for nothing in between.
    `target` is the tensor into which the copy goes; without it, the copy makes a new tensor."""
    if not frame.hot or frame.node is None:
        return
    parents = parents_in(frame.node)
    held = parents.get(node)
    if target is None and isinstance(held, ast.Attribute):
        call = parents.get(held)
        if isinstance(call, ast.Call) and _reads(call, parents):
            frame.emit("AttrWrite", "host-read-early", node, value=f"`{ast.unparse(node)}`")
        return
    statement = held if isinstance(held, (ast.Assign, ast.Expr)) else None
    if statement is None or (target is None and not isinstance(statement, ast.Assign)):
        return
    bound = statement.targets[0] if isinstance(statement, ast.Assign) else target
    name = _copied_into(bound) if bound is not None else None
    read = _first_read(frame.node, statement, name) if name is not None else None
    if read is not None:
        frame.emit("AttrWrite", "host-read-early", read, value=f"`{name}`")


def _copied_into(target: ast.expr) -> str | None:
    """Return the host tensor into which a copy goes: `self.host` for `self.host` and `self.host[:n]`. Return None for
    one row of a tensor, `self.host[k]`, because a read of another row is no early read."""
    if isinstance(target, ast.Subscript) and all(isinstance(part, ast.Slice) for part in elements(target.slice)):
        return place(target.value)
    return place(target)


def _reads(call: ast.Call, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a method call on a host tensor reads its elements. `y.numpy()` alone only shares the memory, but
    `y.numpy().mean()` and `y.numpy()[0].copy()` read it."""
    holder = parents.get(call)
    while isinstance(holder, ast.Subscript):
        holder = parents.get(holder)
    name = called_name(call)
    return name in _READS or (name == "numpy" and isinstance(holder, ast.Attribute))


def _later(statement: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> Iterator[ast.stmt]:
    """Yield the statements after a statement, in its block and after the `with` statements around it."""
    yield from following(statement, parents)
    around = parents.get(statement)
    if isinstance(around, (ast.With, ast.AsyncWith)):
        yield from _later(around, parents)


def _first_read(function: ast.FunctionDef | ast.AsyncFunctionDef, copy: ast.stmt, name: str) -> ast.Call | None:
    """Return the first call in the statements after a copy that reads the host memory, unless a wait comes before."""
    parents = parents_in(function)
    for statement in _later(copy, parents):
        for call in sorted(inside(statement, ast.Call), key=lambda one: (one.lineno, one.col_offset)):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            if receiver is not None and viewed(receiver) == name and _reads(call, parents):
                return call
            if called_name(call) in _WAITS or "sync" in called_name(call):
                return None
    return None
