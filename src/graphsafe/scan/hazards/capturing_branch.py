"""Finds `if torch.cuda.is_current_stream_capturing():` around code that changes the result of the step."""

from __future__ import annotations

import ast
import re

from graphsafe.scan.domain.values import Number
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.branch_effects import computes, is_maths
from graphsafe.scan.hazards.graph_syntax import stored_names
from graphsafe.scan.sources.node_memo import memoize_on_node

SAYS_CAPTURING = re.compile(r"captur")
"Matches conditions that may ask whether a capture is under way. Only these conditions are evaluated a second time."


def branch(frame: Frame, node: ast.If) -> None:
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


def conditional(frame: Frame, node: ast.IfExp) -> None:
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
    asked = test.func if isinstance(test, ast.Call) else test
    return isinstance(asked, (ast.Name, ast.Attribute)) and SAYS_CAPTURING.search(ast.unparse(asked)) is not None


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
