"""Tells whether the branches of a condition work on the device or only update state of the host. Finds `if
torch.cuda.is_current_stream_capturing():` around code that changes the result of the step."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from graphsafe.scan.domain.numbers import type_of
from graphsafe.scan.domain.values import Function, Number, RuntimeObject, Unknown, Value, as_tensor, options
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import arguments_of, stored_names
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.index import dotted


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
    return any(may_be_tensor(frame.evaluate_quietly(part)) for part in arguments_of(call))


def _simple(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield all statements that bind a name, call a function or leave the block, including nested ones."""
    for statement in body:
        if isinstance(
            statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Continue, ast.Break)
        ):
            yield statement
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block in ("body", "orelse", "finalbody"):
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
    called = [option.ref for option in options(frame.evaluate_quietly(function)) if type(option) is Function]
    return any(map(_works_in_place, filter(None, map(frame.project.function_node, called))))


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


# tests for a capture


def capturing_branch(frame: Frame, node: ast.If) -> None:
    if not frame.hot or not asks(frame, node.test) or _leaves(node.body) or _leaves(node.orelse):
        return
    if ast.dump(ast.Module(node.body, [])) == ast.dump(ast.Module(node.orelse, [])):
        return
    body, other = _ways(frame, node)
    if computes(frame, body) or computes(frame, other):
        # Two branches that assign the same names, or pass the same values to calls, may compute the same result in two
        # ways.
        same = bool(node.orelse) and _bound(node.body) >= _bound(node.orelse) != set()
        same = same or not _worked_on(node.body).isdisjoint(_worked_on(node.orelse))
        frame.emit("StreamOp", "capturing-branch", node.test, "possible" if same else "likely")


def capturing_conditional(frame: Frame, node: ast.IfExp) -> None:
    if not frame.hot or not asks(frame, node.test) or ast.dump(node.body) == ast.dump(node.orelse):
        return
    if is_maths(frame, node.body) or is_maths(frame, node.orelse):
        frame.emit("StreamOp", "capturing-branch", node)


def asks(frame: Frame, test: ast.expr) -> bool:
    """Return whether a test depends only on whether the current stream is being captured."""

    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return asks(frame, test.operand)
    if not _may_ask(test):
        return False
    value = frame.evaluate_quietly(test)
    return type(value) is Number and value.overridable_by == "capturing"


@memoize_on_node
def _may_ask(test: ast.expr) -> bool:
    """Return whether a condition may ask whether a capture is under way. Only such conditions are evaluated again."""
    asked = test.func if isinstance(test, ast.Call) else test
    return isinstance(asked, (ast.Name, ast.Attribute)) and "captur" in ast.unparse(asked)


def _ways(frame: Frame, node: ast.If) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return the statements that run only while a capture is under way, and those that run only without a capture.

    If the branch returns the same expression as the end of the function, the two cases differ only by the statements
    between the two returns.
    """
    block: list[ast.stmt] = frame.node.body if isinstance(frame.node, ast.FunctionDef) else []
    rest = block[block.index(node) + 1 :] if node in block and not node.orelse else []
    if rest and isinstance(rest[-1], ast.Return) and ast.dump(node.body[-1]) == ast.dump(rest[-1]):
        between = [*node.body[:-1], *rest[:-1]]
        returned = {name.id for name in ast.walk(rest[-1]) if isinstance(name, ast.Name)}
        if returned.isdisjoint(_bound(between)):
            return node.body[:-1], rest[:-1]
    return node.body, node.orelse


def _bound(body: list[ast.stmt]) -> set[str]:
    return stored_names(name for statement in body for name in ast.walk(statement))


def _worked_on(body: list[ast.stmt]) -> set[str]:
    """Return the variables that a branch passes to functions, if the branch contains only calls of functions. If both
    branches pass the same variables, they may do the same work."""
    values = [
        one.value for part in body for one in ast.walk(part) if isinstance(one, (ast.Expr, ast.Return, ast.Assign))
    ]
    calls = [value for value in values if isinstance(value, ast.Call)]
    given = [argument.id for call in calls for argument in call.args if isinstance(argument, ast.Name)]
    has_more = any(isinstance(one, ast.AugAssign) for part in body for one in ast.walk(part))
    return set(given) if len(calls) == len(values) and not has_more else set()


def _leaves(body: list[ast.stmt]) -> bool:
    """Return whether a branch ends in `raise`, and so is not another way to compute the step."""
    return bool(body) and isinstance(body[-1], ast.Raise)
