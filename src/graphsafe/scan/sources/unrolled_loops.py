"""Reads `for buf, new in ((self.x, x), (self.y, y)): buf.copy_(new)` as one copy into `self.x` and one into `self.y`.
The rules about graphs then need to know only names of tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.sources.tree_copies import Node, moved, with_changes

_MOST = 8
"The largest number of elements of a loop that is unrolled."


@memoize_on_node
def unrolled(tree: ast.Module) -> ast.Module:
    """Return the file's tree, or a copy in which the body of a loop over a written tuple of attributes is repeated for
    each element. All nodes keep their positions."""
    copied = with_changes(tree, _unrolled)
    assert isinstance(copied, ast.Module)
    return copied


def _unrolled(node: ast.AST) -> ast.For | None:
    if not isinstance(node, ast.For) or any([*inside(node, ast.Break), *inside(node, ast.Continue)]):
        return None
    stored = {name.id for part in node.body for name in inside(part, ast.Name) if isinstance(name.ctx, ast.Store)}
    rounds = [{name: value for name, value in one if name not in stored} for one in _rounds(node)]
    if not 2 <= len(rounds) <= _MOST or not all(rounds):
        return None
    body = [_copy(part, names) for names in rounds for part in node.body]
    return ast.copy_location(ast.For(node.target, node.iter, body, node.orelse, node.type_comment), node)


def _rounds(loop: ast.For) -> Iterator[Sequence[tuple[str, ast.expr]]]:
    """Yield, for each iteration, the loop variables that stand for attributes or other names, with these."""
    targets = _elements(loop.target)
    call = loop.iter
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "zip":
        columns = [(to, _elements(one)) for to, one in zip(targets, call.args, strict=False) if _elements(one)]
        for i in range(min((len(values) for _, values in columns), default=0)):
            yield [*_places((to, values[i]) for to, values in columns)]
        return
    for value in _elements(call):
        values = _elements(value)
        whole = not targets or len(values) != len(targets)
        yield [*_places([(loop.target, value)] if whole else zip(targets, values, strict=True))]


def _elements(node: ast.expr) -> Sequence[ast.expr]:
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else ()


def _places(pairs: Iterable[tuple[ast.expr, ast.expr]]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the pairs of a loop variable and a name, or of a loop variable and an attribute such as `self.x`."""
    for target, value in pairs:
        inner = value
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if isinstance(target, ast.Name) and isinstance(inner, ast.Name):
            yield target.id, value


def _copy(node: Node, names: Mapping[str, ast.expr]) -> Node:
    """Return a copy of a node in which expressions replace names. They get the positions of the names."""
    if isinstance(node, ast.Name) and node.id in names:
        return cast(Node, moved(_copy(names[node.id], {}), node))
    fields = {name: _copy_part(part, names) for name, part in ast.iter_fields(node)}
    return ast.copy_location(type(node)(**fields), node)


def _copy_part(part: Any, names: Mapping[str, ast.expr]) -> Any:
    if isinstance(part, list):
        return [_copy_part(one, names) for one in part]
    return _copy(part, names) if isinstance(part, ast.AST) else part
