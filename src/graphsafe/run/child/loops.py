"""Finds the loop in which a line runs, so that calls from different parts of the program are distinguished."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence

from graphsafe.report.model import CallSite
from graphsafe.run.child.expressions import file_tree

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def same_loop(one: Sequence[CallSite], other: Sequence[CallSite]) -> bool:
    """Return whether the innermost loop around the call stack `one` also contains the call stack `other` (both
    outermost first). A check, a benchmark or a warm-up has its own loop."""
    for depth in reversed(range(len(one))):
        loop = loop_around(one[depth].path, one[depth].line)
        if loop is not None:
            if depth >= len(other) or one[:depth] != other[:depth]:
                return False
            return one[depth].path == other[depth].path and loop[0] <= other[depth].line <= loop[1]
    return False


def is_in_loop(stack: Sequence[CallSite]) -> bool:
    return any(loop_around(one.path, one.line) is not None for one in stack)


@functools.lru_cache(maxsize=1024)
def loop_around(path: str, line: int) -> tuple[int, int] | None:
    """Return the first and last line of the innermost loop around a line, in the function that holds it."""
    found: tuple[int, int] | None = None
    todo: list[ast.AST] = [file_tree(path)]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
            if first is not None and last is not None and first <= line <= last:
                found = None if isinstance(child, _FUNCTIONS) else (first, last) if isinstance(child, _LOOPS) else found
                todo.append(child)
    return found
