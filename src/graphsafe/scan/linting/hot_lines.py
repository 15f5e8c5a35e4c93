"""The statements of hot functions: the code that a step may run, as far as the scan can tell."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from graphsafe.scan.domain.record import Record
from graphsafe.scan.linting.call_graph import CallGraph
from graphsafe.scan.symbols.blocks import blocks_of
from graphsafe.scan.symbols.project import Project

Lines = tuple[int, int]
"The first and last line of a statement, or of the head of a compound statement."


def hot_statements(project: Project, record: Record, wanted: Collection[str]) -> dict[str, set[Lines]]:
    """Return the statements of hot functions in the wanted files, by the absolute paths of the files."""
    found: dict[str, set[Lines]] = {}
    for ref in CallGraph(record).chains():
        path = ref.partition("::")[0]
        node = project.function_node(ref) if path in wanted else None
        if node is not None:
            found.setdefault(path, set()).update(_statements(node.body))
    return found


def _statements(body: Iterable[ast.stmt]) -> Iterator[Lines]:
    """Yield the statements that a call of the function executes, except the statements of inner functions."""
    for statement in body:
        inner = [one for block in blocks_of(statement) for one in block]
        if _has_code(statement):
            last = min((one.lineno - 1 for one in inner), default=statement.end_lineno or statement.lineno)
            yield statement.lineno, max(last, statement.lineno)
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _statements(inner)


def _has_code(statement: ast.stmt) -> bool:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    is_annotation = isinstance(statement, ast.AnnAssign) and statement.value is None
    return not (is_text or is_annotation or isinstance(statement, (ast.Global, ast.Nonlocal, ast.Try)))
