"""Evaluates expressions of the program's source in a running function without running the program's code."""

from __future__ import annotations

import ast
import functools
import inspect
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

from graphsafe.capture.shared.frames import call_site
from graphsafe.capture.shared.trees import tree_of
from graphsafe.report.model import CallSite
from graphsafe.report.source import file_lines
from graphsafe.run.child.names import attributes_of, locals_of


@functools.lru_cache(maxsize=16)
def file_tree(path: str) -> ast.Module:
    """Return the syntax tree of a file of the program."""
    return tree_of(file_lines(path))


def names_of(frame: FrameType) -> Mapping[str, Any]:
    """Return the variables that a function sees."""
    return ChainMap(locals_of(frame), frame.f_globals)


def value_of(expression: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of a name or of an attribute of a name; None if it is unknown."""
    if isinstance(expression, ast.Name):
        return names.get(expression.id)
    if not isinstance(expression, ast.Attribute):
        return None
    owner = value_of(expression.value, names)
    for table in (attributes_of(owner), attributes_of(owner).get("_modules") or {}):
        if expression.attr in table:
            return table[expression.attr]
    return None if owner is None else inspect.getattr_static(type(owner), expression.attr, None)


def base_of(expression: ast.expr) -> ast.expr:
    """Return the expression without its indices: `self.rows` of `self.rows[0][1:]`."""
    return base_of(expression.value) if isinstance(expression, ast.Subscript) else expression


def written_in_place(node: ast.AST) -> Sequence[ast.expr]:
    """Return the expressions that a node writes in place: `x.copy_(y)`, `x[:n] = y`, `x += y`, `out=x`, and NumPy's
    `np.copyto(x, y)` and `x.fill(0)`."""
    if isinstance(node, ast.Call):
        outs = [one.value for one in node.keywords if one.arg == "out"]
        method = node.func
        if isinstance(method, ast.Attribute):
            if method.attr == "fill" or (method.attr.endswith("_") and not method.attr.endswith("__")):
                outs.append(base_of(method.value))
            elif method.attr == "copyto":
                outs += map(base_of, node.args[:1])
        return outs
    if isinstance(node, ast.Assign):
        return [base_of(target) for target in node.targets if isinstance(target, ast.Subscript)]
    return [base_of(node.target)] if isinstance(node, ast.AugAssign) else ()


def line_with(
    frames: Sequence[FrameType],
    expressions: Callable[[str], Iterable[tuple[ast.expr, int]]],
    is_meant: Callable[[Any], bool],
) -> CallSite | None:
    """Return the first line of the running functions with an expression whose value satisfies `is_meant`.

    `expressions` returns the expressions of a file to try, with their lines.
    """
    for frame in frames:
        code = frame.f_code
        lines, names = lines_of(code), names_of(frame)
        for expression, line in expressions(code.co_filename):
            if line in lines and is_meant(value_of(expression, names)):
                return call_site(code, line)
    return None


def lines_of(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line is not None}


def statement_at(path: str, line: int) -> ast.stmt | None:
    """Return the innermost statement of a file that holds the line."""
    found: ast.stmt | None = None
    todo: list[ast.AST] = [file_tree(path)]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            if not isinstance(child, ast.stmt):
                todo += [child] if isinstance(child, (ast.ExceptHandler, ast.match_case)) else ()
            elif child.lineno <= line <= (child.end_lineno or child.lineno):
                found = child
                todo.append(child)
    return found
