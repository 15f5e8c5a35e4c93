"""`if torch.cuda.is_current_stream_capturing():` around code that changes what the step computes."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from graphsafe.scan.checks.branch_effects import computes, is_maths
from graphsafe.scan.domain.values import Number
from graphsafe.scan.sources.node_memo import memoize_on_node

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

SAYS_CAPTURING = re.compile(r"captur")
"A cheap first look at the name: only such tests are evaluated a second time."


def branch(engine: Engine, frame: Frame, node: ast.If) -> None:
    if not frame.hot or not asks(engine, frame, node.test) or _leaves(node.body) or _leaves(node.orelse):
        return
    if ast.dump(ast.Module(node.body, [])) == ast.dump(ast.Module(node.orelse, [])):
        return
    if computes(engine, frame, node.body) or computes(engine, frame, node.orelse):
        # Two branches that assign the same names may compute the same values differently.
        same = bool(node.orelse) and _bound(node.body) >= _bound(node.orelse) != set()
        engine.emit(frame, "StreamOp", "capturing-branch", node.test, "possible" if same else "likely")


def conditional(engine: Engine, frame: Frame, node: ast.IfExp) -> None:
    if not frame.hot or not asks(engine, frame, node.test) or ast.dump(node.body) == ast.dump(node.orelse):
        return
    if is_maths(engine, frame, node.body) or is_maths(engine, frame, node.orelse):
        engine.emit(frame, "StreamOp", "capturing-branch", node)


def asks(engine: Engine, frame: Frame, test: ast.expr) -> bool:
    """Whether a test asks just this: is the current stream being captured?"""

    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return asks(engine, frame, test.operand)
    if not _may_ask(test):
        return False
    value = engine.evaluate_quietly(frame, test)
    return type(value) is Number and value.overridable_by == "capturing"


@memoize_on_node
def _may_ask(test: ast.expr) -> bool:
    asked = test.func if isinstance(test, ast.Call) else test
    return isinstance(asked, (ast.Name, ast.Attribute)) and SAYS_CAPTURING.search(ast.unparse(asked)) is not None


def _bound(body: list[ast.stmt]) -> set[str]:
    names = [name for statement in body for name in ast.walk(statement)]
    return {name.id for name in names if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}


def _leaves(body: list[ast.stmt]) -> bool:
    """A branch that raises or returns does not compute the step in another way."""
    return bool(body) and isinstance(body[-1], ast.Raise)


__all__ = ["asks", "branch", "conditional"]
