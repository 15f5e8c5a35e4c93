"""Tells whether the branches of a condition work on the device or only update state of the host."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from graphsafe.scan.domain.numbers import type_of
from graphsafe.scan.domain.values import Function, RuntimeObject, Unknown, Value, as_tensor, options
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import stored_names
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.index import dotted

BLOCKS = ("body", "orelse", "finalbody")


def computes(frame: Frame, body: Iterable[ast.stmt]) -> bool:
    """Return whether statements bind, return or modify a tensor, or a number that could become an operand or a size."""
    for statement in _simple(body):
        if isinstance(statement, ast.Expr):
            if isinstance(statement.value, ast.Call) and changes_in_place(statement.value):
                return True
        elif (value := getattr(statement, "value", None)) is not None and is_maths(frame, value):
            return True
    return False


def chooses_result(frame: Frame, node: ast.If, before: Mapping[str, Value], returned: int) -> bool:
    """Return whether a branch of an `if` returns a tensor, or rebinds a name that is bound to a tensor in `before`.

    `returned` is the number of values in `frame.returns` before the branches were read. A `return` in a loop over steps
    is ignored, because it only ends the loop.
    """
    if not frame.step_loops and any(map(may_be_tensor, frame.returns[returned:])):
        return True
    return any(may_be_tensor(before[name]) for name in _bound_in_branches(node) & before.keys())


@memoize_on_node
def _bound_in_branches(node: ast.If) -> frozenset[str]:
    return frozenset(stored_names(name for part in (*node.body, *node.orelse) for name in inside(part, ast.Name)))


def call_touches_device(frame: Frame, call: ast.Call) -> bool:
    """Return whether a call whose result is ignored does more than update state of the host."""
    if changes_in_place(call) or _runs_device_code(frame, call):
        return True
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(may_be_tensor(frame.evaluate_quietly(part)) for part in given)


def _simple(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield all statements that bind a name, call a function or leave the block, including nested ones."""
    for statement in body:
        if isinstance(
            statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Continue, ast.Break)
        ):
            yield statement
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block in BLOCKS:
                yield from _simple(getattr(statement, block, ()))


def is_maths(frame: Frame, node: ast.expr) -> bool:
    """Return whether an expression is a tensor, or a number that could become an operand or a size."""

    return may_be_operand(frame.evaluate_quietly(node))


def may_be_operand(value: Value) -> bool:
    return may_be_tensor(value) or type_of(value) in ("int", "float")


def _runs_device_code(frame: Frame, call: ast.Call) -> bool:
    """Return whether a call whose result is ignored works on the device: `self._follow()`, `self.optimizer.step()`."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "step":
        return True
    for option in options(frame.evaluate_quietly(function)):
        node = frame.project.function_node(option.ref) if type(option) is Function else None
        if node is not None and _works_in_place(node):
            return True
    return False


@memoize_on_node
def _works_in_place(function: ast.AST) -> bool:
    """Return whether the body of a function calls a function of torch or modifies a tensor in place."""
    calls = inside(function, ast.Call)
    return any(changes_in_place(call) or (dotted(call.func) or "").startswith("torch.") for call in calls)


def changes_in_place(call: ast.Call) -> bool:
    """Return whether a call modifies its receiver in place, like `self.load.add_(x)`."""
    function = call.func
    return isinstance(function, ast.Attribute) and function.attr.endswith("_") and not function.attr.startswith("_")


def may_be_tensor(value: Value) -> bool:
    return as_tensor(value)[0] is not None or (type(value) is Unknown and value.device)


def polled(frame: Frame, node: ast.While) -> None:
    """Emit an event for a loop that does nothing until the device is ready: `while not event.query(): pass`."""
    asked = node.test.operand if isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not) else None
    if not isinstance(asked, ast.Call) or not isinstance(asked.func, ast.Attribute) or asked.func.attr != "query":
        return
    known = frame.evaluate_quietly(asked.func.value)
    if type(known) is RuntimeObject and known.kind in ("event", "stream") and all(map(_idles, node.body)):
        frame.emit("StreamOp", "synchronize", node.test)


def _idles(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    sleeps = isinstance(value, ast.Call) and (dotted(value.func) or "").rpartition(".")[2] in ("sleep", "sched_yield")
    return isinstance(statement, (ast.Pass, ast.Continue)) or sleeps
