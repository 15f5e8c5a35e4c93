"""What the branches of a condition do: compute on the device, or only update state of the host."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from graphsafe.scan.domain.values import Function, Number, Unknown, Value, as_tensor, options
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.symbols.index import dotted

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

BLOCKS = ("body", "orelse", "finalbody")


def computes(engine: Engine, frame: Frame, body: Iterable[ast.stmt]) -> bool:
    """Whether statements bind, return or change in place a tensor, or a number that could become an operand or size."""
    for statement in _simple(body):
        if isinstance(statement, ast.Expr):
            if isinstance(statement.value, ast.Call) and changes_in_place(statement.value):
                return True
        elif (value := getattr(statement, "value", None)) is not None and is_maths(engine, frame, value):
            return True
    return False


def touches_device(engine: Engine, frame: Frame, body: Iterable[ast.stmt]) -> bool:
    """Whether statements do more than update state of the host: compute, pass on a tensor, or leave the function."""

    for statement in _simple(body):
        if isinstance(statement, (ast.Return, ast.Continue, ast.Break)):
            return True
        value = getattr(statement, "value", None)
        given = [value] if value is not None else []
        if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
            if changes_in_place(value) or _runs_device_code(engine, frame, value):
                return True
            given = [*value.args, *(keyword.value for keyword in value.keywords)]
        if any(_may_be_tensor(engine.evaluate_quietly(frame, part)) for part in given):
            return True
    return False


def _simple(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that bind, call or leave, those inside other statements included."""
    for statement in body:
        if isinstance(
            statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Continue, ast.Break)
        ):
            yield statement
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block in BLOCKS:
                yield from _simple(getattr(statement, block, ()))


def is_maths(engine: Engine, frame: Frame, node: ast.expr) -> bool:
    """A tensor, or a number that could become an operand or a size; not text, a flag or nothing."""

    value = engine.evaluate_quietly(frame, node)
    return _may_be_tensor(value) or (type(value) is Number and value.type in ("int", "float"))


def _runs_device_code(engine: Engine, frame: Frame, call: ast.Call) -> bool:
    """`self._follow()`, `self.optimizer.step()`: a call whose result nobody uses, for what it does to the device."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "step":
        return True
    for option in options(engine.evaluate_quietly(frame, function)):
        node = engine.project.function_node(option.ref) if type(option) is Function else None
        if node is not None and _works_in_place(node):
            return True
    return False


@memoize_on_node
def _works_in_place(function: ast.AST) -> bool:
    """Whether a function itself calls a function of torch or changes a tensor in place."""
    calls = (inner for inner in ast.walk(function) if isinstance(inner, ast.Call))
    return any(changes_in_place(call) or (dotted(call.func) or "").startswith("torch.") for call in calls)


def changes_in_place(call: ast.Call) -> bool:
    """`self.load.add_(x)`."""
    function = call.func
    return isinstance(function, ast.Attribute) and function.attr.endswith("_") and not function.attr.startswith("_")


def _may_be_tensor(value: Value) -> bool:
    return as_tensor(value)[0] is not None or (type(value) is Unknown and value.device)


__all__ = ["changes_in_place", "computes", "is_maths", "touches_device"]
