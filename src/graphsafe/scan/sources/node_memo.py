"""Memoised functions of syntax nodes, for example the search for all nodes inside a node. A result is kept as long as
its node exists."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

Question = TypeVar("Question", bound=Callable[..., Any])
Node = TypeVar("Node", bound=ast.AST)


def memoize_on_node(question: Question) -> Question:
    """Memoise a pure function of a node and of further arguments. The node stores the results.

    A result must not refer to the node, or to a node around it. Garbage collection is off, so such a cycle would never
    be freed.
    """
    name = f"{question.__module__}.{question.__qualname__}"
    if question.__code__.co_argcount == 1:
        return _of_node_alone(question, name)

    @wraps(question)
    def ask(node: ast.AST, *more: object) -> Any:
        answers: dict[Any, Any] | None = node.__dict__.get(name)
        if answers is None:
            answers = node.__dict__[name] = {}
        if more not in answers:
            answers[more] = question(node, *more)
        return answers[more]

    return ask  # type: ignore[return-value]


memoize_method = memoize_on_node
"The same for a method: the object stores the results."


def _of_node_alone(question: Question, name: str) -> Question:
    @wraps(question)
    def ask(node: ast.AST) -> Any:
        answers: dict[str, Any] = node.__dict__
        if name not in answers:
            answers[name] = question(node)
        return answers[name]

    return ask  # type: ignore[return-value]


def inside(node: ast.AST, kind: type[Node]) -> Sequence[Node]:
    """Return the nodes of one kind that `ast.walk` visits, in the same order. All kinds share a single walk."""
    found: Sequence[Any] = _by_kind(node).get(kind, ())
    return (node, *found) if type(node) is kind else found


@memoize_on_node
def _by_kind(node: ast.AST) -> Mapping[type[ast.AST], Sequence[ast.AST]]:
    """Map each kind to the nodes of this kind inside a node. The node itself is left out."""
    found: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    waiting = children(node)
    for inner in waiting:
        found[type(inner)].append(inner)
        if _PARTS[type(inner)]:  # nearly half of all nodes are names and constants, which contain no nodes
            waiting += children(inner)
    return found


_NO_NODES = frozenset("ctx id attr arg kind type_comment conversion is_async simple level module kwd_attrs".split())
_NO_PARTS = (ast.Constant, ast.Global, ast.Nonlocal)
_PARTS = {
    kind: tuple(name for name in kind._fields if name not in _NO_NODES and kind not in _NO_PARTS)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"Kind of node -> its fields that may contain nodes."


def children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes of `ast.iter_child_nodes`, without contexts such as `Load`, in half the time."""
    found: list[ast.AST] = []
    for name in _PARTS[type(node)]:
        value = getattr(node, name, None)
        if type(value) is list:
            found += value if None not in value else filter(None, value)
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


source_text = memoize_on_node(ast.unparse)


_MOST_SHOWN = 60
"The largest number of characters of an expression that a message shows."


@memoize_on_node
def expression_text(node: ast.AST) -> str:
    """Return the code of an expression on one line, cut off if it is long."""
    try:
        text = " ".join(ast.unparse(node).split())
    except (ValueError, RecursionError):
        return "…"
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"
