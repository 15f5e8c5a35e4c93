"""`if torch.cuda.is_current_stream_capturing():` around code that changes what the step computes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from graphsafe.scan.values import Number, Unknown, Value, as_tensor

if TYPE_CHECKING:
    from graphsafe.scan.engine import Engine
    from graphsafe.scan.frame import Frame

SAYS_CAPTURING = re.compile(r"captur")
"A cheap first look at the name: only such tests are evaluated a second time."


def branch(engine: Engine, frame: Frame, node: ast.If) -> None:
    if not frame.hot or not asks(engine, frame, node.test) or _leaves(node.body) or _leaves(node.orelse):
        return
    if _computes(engine, frame, node.body) or _computes(engine, frame, node.orelse):
        engine.emit(frame, "StreamOp", "capturing-branch", node.test)


def conditional(engine: Engine, frame: Frame, node: ast.IfExp) -> None:
    if not frame.hot or not asks(engine, frame, node.test):
        return
    if _is_maths(engine, frame, node.body) or _is_maths(engine, frame, node.orelse):
        engine.emit(frame, "StreamOp", "capturing-branch", node)


def asks(engine: Engine, frame: Frame, test: ast.expr) -> bool:
    """Whether a test asks just this: is the current stream being captured?"""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return asks(engine, frame, test.operand)
    asked = test.func if isinstance(test, ast.Call) else test
    if not isinstance(asked, (ast.Name, ast.Attribute)) or not SAYS_CAPTURING.search(ast.unparse(asked)):
        return False
    value = _value(engine, frame, test)
    return type(value) is Number and value.soft == "capturing"


def _leaves(body: list[ast.stmt]) -> bool:
    """An arm that refuses to run is no other way to compute."""
    return bool(body) and isinstance(body[-1], ast.Raise)


def _computes(engine: Engine, frame: Frame, body: Iterable[ast.stmt]) -> bool:
    for statement in body:
        if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)):
            if statement.value is not None and _is_maths(engine, frame, statement.value):
                return True
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            function = statement.value.func
            if (
                isinstance(function, ast.Attribute)
                and function.attr.endswith("_")
                and not function.attr.startswith("_")
            ):
                return True
        elif any(
            _computes(engine, frame, getattr(statement, block, ()))
            for block in ("body", "orelse", "finalbody")
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        ):
            return True
    return False


def _is_maths(engine: Engine, frame: Frame, node: ast.expr) -> bool:
    """A tensor, or a number that could become an operand or a size; not text, a flag or nothing."""
    value = _value(engine, frame, node)
    if as_tensor(value)[0] is not None:
        return True
    if type(value) is Number:
        return value.type in ("int", "float")
    return type(value) is Unknown and value.device


def _value(engine: Engine, frame: Frame, node: ast.expr) -> Value:
    from graphsafe.scan.expressions import evaluate

    hot, frame.hot = frame.hot, False
    value = evaluate(engine, frame, node)
    frame.hot = hot
    return value


__all__ = ["asks", "branch", "conditional"]
