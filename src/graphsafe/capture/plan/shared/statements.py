"""Finds which names statements assign and read, and which nodes they contain, in the syntax tree of a file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence

LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    if isinstance(statement, _SCOPES):
        return []
    found = [getattr(statement, name) for name in ("body", "orelse", "finalbody") if getattr(statement, name, None)]
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        found.append(part.body)
    return found


def stores_in(statements: Sequence[ast.stmt]) -> set[str]:
    return {name for node in within(statements) for name in _stored_by(node)}


def own_stores(statement: ast.stmt) -> set[str]:
    """Return the names that the head of a statement assigns, without those that its blocks assign."""
    return {name for node in _head(statement) for name in _stored_by(node)}


def own_loads(statement: ast.stmt) -> set[str]:
    """Return the names that the head of a statement reads. If the statement defines a function, the names that the
    function reads are included."""
    heads = _head(statement)
    return loads_of([*heads, *(node for top in heads if isinstance(top, _SCOPES) for node in ast.walk(top))])


def loads_of(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that these nodes read or delete."""
    return {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)}


def declared(node: ast.AST, kind: type[ast.Global] | type[ast.Nonlocal]) -> frozenset[str]:
    return frozenset(name for found in ast.walk(node) if isinstance(found, kind) for name in found.names)


def _stored_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield (alias.asname or alias.name).partition(".")[0]
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def _head(statement: ast.stmt) -> list[ast.AST]:
    inner = {id(one) for block in blocks_of(statement) for one in block}
    return list(_walk([statement], lambda node: [child for child in _children(node) if id(child) not in inner]))


def within(statements: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of these statements, without the insides of functions and classes that they define."""
    return _walk(statements, _children)


def _walk(nodes: Sequence[ast.AST], children: Callable[[ast.AST], Sequence[ast.AST]]) -> Iterator[ast.AST]:
    left = list(nodes)
    while left:
        node = left.pop()
        yield node
        left += children(node)


def _children(node: ast.AST) -> list[ast.AST]:
    return [] if isinstance(node, _SCOPES) else list(ast.iter_child_nodes(node))


def jumps(statements: Sequence[ast.stmt]) -> bool:
    """Return whether a `break` or `continue` in the range belongs to a loop around the range."""
    nodes = _walk(statements, lambda node: node.orelse if isinstance(node, LOOPS) else _children(node))
    return any(isinstance(node, (ast.Break, ast.Continue)) for node in nodes)


def covers(block: Sequence[ast.stmt], line: int) -> bool:
    return begin(block[0]) <= line <= (block[-1].end_lineno or block[-1].lineno)


def begin(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(int(decorator.lineno) for decorator in decorators)])
