"""Local names that stand for the same object as an attribute or an entry. After `v = self.buffers`, `v` stands for
`self.buffers`. If `self.x = x` stores a tensor that the function has captured, `x` stands for `self.x`. In a function
that captures, a name may also stand for views of attributes: `x = self.x[:n]`, `inputs = (self.x[:n], self.y[:n])`.

Methods of one class may have different local names for the same tensors.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

from graphsafe.scan.hazards.graph_syntax import (
    LOOPS,
    Function,
    ancestors,
    captures,
    captures_in,
    functions_in,
    head,
    own_nodes,
    parents_in,
    place,
    stored_names,
    viewed,
    with_statements,
)
from graphsafe.scan.hazards.graph_tensors import bindings
from graphsafe.scan.sources.named_lambdas import as_functions
from graphsafe.scan.sources.node_memo import children, inside, memoize_on_node
from graphsafe.scan.sources.tree_copies import moved, with_changes
from graphsafe.scan.sources.unrolled_loops import unrolled
from graphsafe.scan.symbols.index import dotted, elements

_NESTED = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda
_BRANCHES = (*LOOPS, *_NESTED, ast.If, ast.Try, ast.ExceptHandler, ast.match_case)


@dataclass(frozen=True, slots=True)
class SameObject:
    """An attribute or an entry (a *place*) that refers to the same object as a local name."""

    place: str
    line: int
    "The line of the name's last assignment."
    end: int
    "The end of this assignment. In lines below, the name stands for the object."


@dataclass(frozen=True, slots=True)
class SameObjects:
    """The local names of a function that refer to the same objects as other places."""

    taken: Mapping[str, SameObject]
    """Names that are assigned only once, from a place: `x = self.x`. The function does not assign to the place
    afterwards."""
    stored: Mapping[str, SameObject]
    """Names that are assigned to a place: `self.x = x`. The function contains a capture, and does not use
    the place before this assignment."""
    views: Mapping[str, SameObject]
    """Names that are assigned only once, from views of attributes. The function contains a capture. Here, a *place* is
    the source code of the view."""

    def meant(self, text: str, line: int) -> str:
        """Return the full name of a place: `self.model.step` for `model.step` if `model` stands for `self.model`."""
        name = head(text)
        same = self.taken.get(name) or self.stored.get(name)
        return text if same is None or line <= same.end else same.place + text[len(name) :]


class _Binding(NamedTuple):
    line: int
    end: int
    branch: ast.AST | None
    "The innermost loop, branch or function around the line."


@memoize_on_node
def same_objects(function: Function) -> SameObjects:
    parents = parents_in(function)
    bound = _bound(function, parents)
    taken: dict[str, SameObject] = {}
    for line, target, value in _pairs(parents):
        held = place(value)
        if isinstance(target, ast.Name) and held is not None and not isinstance(value, ast.Name):
            made = bound[target.id]
            owners = [bound[text] for text in _owners(value)]
            if len(made) == 1 and all(len(one) <= 1 and all(two.line < line for two in one) for one in owners):
                taken[target.id] = SameObject(held, made[0].line, made[0].end)
    if not any(map(captures, with_statements(function))):
        return SameObjects(taken, {}, {})
    views = {
        target.id: SameObject(ast.unparse(value), made.line, made.end)
        for _, target, value in _pairs(parents)
        if isinstance(target, ast.Name) and _shows_attributes(value)
        for made in bound[target.id][:1]
        if len(bound[target.id]) == 1
    }
    return SameObjects(taken, _stored(function, parents, bound), views)


def _shows_attributes(value: ast.expr) -> bool:
    """Return whether an expression is a view of an attribute, or a tuple of such views and of attributes."""
    parts = elements(value)
    names = [viewed(part) or "" for part in parts]
    return all(head(name) == "self" for name in names) and any(place(part) is None for part in parts)


def _stored(
    function: Function, parents: Mapping[ast.AST, ast.AST], bound: Mapping[str, Sequence[_Binding]]
) -> Mapping[str, SameObject]:
    used = [(text, node.lineno) for node in parents if isinstance(node, ast.expr) and (text := place(node)) is not None]
    nested = [one for node in (function, *parents) for one in children(node) if isinstance(one, _NESTED)]
    # A function inside this one may run later, when the place holds another object.
    elsewhere = {name.id for one in nested for name in inside(one, ast.Name)}
    found: dict[str, SameObject] = {}
    for line, target, value in sorted(_pairs(parents), key=lambda pair: pair[0]):
        to = place(target)
        if to is None or isinstance(target, ast.Name) or not isinstance(value, ast.Name):
            continue
        name, made = value.id, bound[value.id]
        if name in found or name in elsewhere or not made or len(bound[to]) != 1:
            continue
        last = made[-1]
        if (
            last.line <= line
            and last.branch is bound[to][0].branch
            and all(text != to or at >= line for text, at in used)
        ):
            found[name] = SameObject(to, last.line, last.end)
    return found


def _bound(function: Function, parents: Mapping[ast.AST, ast.AST]) -> Mapping[str, Sequence[_Binding]]:
    """Return the bindings of each place in a function, in the order of the code. A parameter is bound by the call."""
    bound: dict[str, list[_Binding]] = defaultdict(list)
    for node in parents:
        if isinstance(node, ast.arg):
            bound[node.arg].append(_Binding(function.lineno, function.lineno, function))
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            text = place(node)
            if text is not None and not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)):
                around = [*ancestors(node, parents)]
                statement = next(one for one in around if isinstance(one, ast.stmt))
                is_simple = isinstance(statement, (ast.Assign, ast.AnnAssign))
                end = (statement.end_lineno if is_simple else None) or node.lineno
                branch = next((one for one in around if isinstance(one, _BRANCHES)), None)
                bound[text].append(_Binding(node.lineno, end, branch))
    for made in bound.values():
        made.sort(key=lambda one: one.line)
    return bound


def _pairs(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, ast.expr, ast.expr]]:
    """For each assignment, yield its line and two expressions that refer to the same object after it. Examples: `a =
    b`, `a, c = b, d`, and `a = b = f()`."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            yield from ((node.lineno, *pair) for pair in (*bindings(node), *permutations(node.targets, 2)))
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.lineno, node.target, node.value


def _owners(node: ast.expr) -> Iterator[str]:
    """Yield a place and the places that contain it: `self.x.y`, `self.x` and `self`."""
    yield place(node) or ""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
        yield place(node) or ""


def spelled_out(tree: ast.Module) -> ast.Module:
    """Return the file's tree, or a copy in which some names are replaced. In the copy, `self.x` replaces each local
    name that stands for it, and `torch.cuda.graph` replaces the file's own context managers that capture. All nodes
    keep their positions. Lambdas with a name are read as functions first (named_lambdas.py), and short loops over
    attributes are unrolled (unrolled_loops.py)."""
    usual = unrolled(as_functions(tree))
    return _spelled_out(usual) or usual


@memoize_on_node
def _spelled_out(tree: ast.Module) -> ast.Module | None:
    replaced = {id(name): text for function in functions_in(tree) for name, text in _replaced(function)}
    replaced.update({id(name): "torch.cuda.graph" for name in _own_captures(tree)})
    if not replaced:
        return None
    copied = with_changes(tree, lambda node: _placed(replaced[id(node)], node) if id(node) in replaced else None)
    assert isinstance(copied, ast.Module)
    return copied


def _own_captures(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the names by which `with` statements call the file's own context managers that capture: `with
    recording(graph):` after `with torch.cuda.graph(graph): yield`."""
    own = {
        function.name
        for function in functions_in(tree)
        if any(inside(block, ast.Yield) for block in captures_in(function))
    }
    for item in (item for block in with_statements(tree) for item in block.items) if own else ():
        call = item.context_expr
        if isinstance(call, ast.Call) and (dotted(call.func) or "").removeprefix("self.") in own:
            yield call.func


def _placed(text: str, name: ast.AST) -> ast.expr:
    """Return the syntax tree of a place, with the position of a name."""
    code = moved(ast.parse(text, mode="eval").body, name)
    code.ctx = name.ctx  # type: ignore[attr-defined]
    return code


def _replaced(function: Function) -> Iterator[tuple[ast.Name, str]]:
    """Yield the names that stand for attributes of `self`, each with its attribute.

    The line that makes a name stand for an attribute is left out: `x` in `x = self.x`, and an argument `x` in `self.x =
    x`.
    """
    same = same_objects(function)
    names = {name: one for name, one in {**same.stored, **same.taken}.items() if head(one.place) == "self"}
    names.update({name: one for name, one in same.views.items() if name not in names})
    nodes = [node for _, node in own_nodes(function)] if names else []
    given = {node.arg for node in nodes if isinstance(node, ast.arg)} - stored_names(nodes)
    binding = {
        id(value)
        for _, target, value in _pairs(nodes)
        if isinstance(value, ast.Name) and value.id in given & names.keys() and place(target) == names[value.id].place
    }
    for node in nodes:
        one = names.get(node.id) if isinstance(node, ast.Name) else None
        if one is None or not isinstance(node, ast.Name) or id(node) in binding:
            continue
        if isinstance(node.ctx, ast.Load):
            is_meant = node.lineno > one.end
        else:
            is_meant = isinstance(node.ctx, ast.Store) and node.lineno >= one.line and one is same.stored.get(node.id)
        if is_meant:
            yield node, one.place
