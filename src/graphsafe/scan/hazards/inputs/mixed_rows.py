"""Finds inputs of which captured code combines the rows: `self.x.mean(0)`. Padding rows then change all results."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set

from graphsafe.scan.hazards.graph_syntax import CaptureBlock, Function, called_name, place
from graphsafe.scan.hazards.graph_tensors import bindings
from graphsafe.scan.symbols.index import dotted

_COMBINES = frozenset(
    "mean sum std var std_mean var_mean max min amax amin argmax argmin median prod norm softmax log_softmax logsumexp"
    " cumsum sort argsort topk".split()
)
"Methods and functions that combine the elements along a dimension."
_MOVES = frozenset(
    "stack permute transpose movedim swapaxes swapdims view reshape unflatten flatten unsqueeze expand einsum t".split()
)
"Methods and functions whose results may have other rows than their operands."


def mixed_rows(code: Sequence[CaptureBlock | Function], inputs: Set[str]) -> Iterator[str]:
    """Yield the inputs of which captured code combines the rows, or the rows of values that it computes from them."""
    for part in code:
        origins: dict[str, Set[str]] = {name: {name} for name in inputs}
        nodes = [node for statement in part.body for node in ast.walk(statement)]
        for node in sorted(nodes, key=lambda one: getattr(one, "lineno", 0)):
            if isinstance(node, ast.Assign):
                origins.update(
                    (name, _inputs_of(value, origins)) for to, value in bindings(node) if (name := place(to))
                )
            elif isinstance(node, ast.Call) and called_name(node) in _COMBINES:
                yield from _combined(node, origins)


def _combined(call: ast.Call, origins: dict[str, Set[str]]) -> Set[str]:
    """Return the inputs of which a call combines the rows: `h.mean(0)`, `torch.softmax(h, dim=0)`."""
    is_function = isinstance(call.func, ast.Attribute) and dotted(call.func.value) in ("torch", "F")
    operand = call.args[0] if is_function and call.args else getattr(call.func, "value", None)
    rest = call.args[1:] if is_function else call.args
    dims = [word.value for word in call.keywords if word.arg in ("dim", "axis")] or rest[:1]
    along_rows = any(isinstance(one, ast.Constant) and one.value == 0 and one.value is not False for one in dims)
    return _inputs_of(operand, origins) if along_rows and operand is not None else set()


def _inputs_of(value: ast.expr, origins: dict[str, Set[str]]) -> Set[str]:
    """Return the inputs from which an expression is computed row by row."""
    parts = [*ast.walk(value)]
    moved = any(isinstance(one, ast.Call) and called_name(one) in _MOVES for one in parts)
    turned = any(isinstance(one, ast.Attribute) and one.attr in ("T", "mT") for one in parts)
    names = {place(one) for one in parts if isinstance(one, (ast.Name, ast.Attribute, ast.Subscript))}
    return set() if moved or turned else set().union(*(origins[name] for name in names if name in origins))
