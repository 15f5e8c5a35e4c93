"""How the body of a function uses its parameters: some uses say that a parameter is a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from graphsafe.optable import OpTable, TensorHint
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.symbols.index import dotted

_FUNCTIONS_OF = {
    "torch": "torch.",
    "F": "torch.nn.functional.",
    "torch.nn.functional": "torch.nn.functional.",
}
"How code writes the modules whose functions take tensors -> the prefix of the op table's names."


SLICED = "[:, …]"
"In place of an attribute: an index of several dimensions, which lists and dicts do not take."


@memoize_on_node
def is_used_as_tensor(function: ast.AST, name: str, ops: OpTable, of: TensorHint) -> bool:
    """Whether the body reads a method or attribute of the parameter, or calls a function with it, that tells.

    What tells stands in the op table: `of` a `parameter` fewer names tell than of a `step-input`.
    """
    uses = _uses_by_name(function).get(name, frozenset())
    if SLICED in uses or not ops.tensor_hints(of).isdisjoint(uses) or any(map(ops.takes_tensor, uses)):
        return True
    return any(ops.takes_tensor_at(*place) for place in _given_to(function).get(name, ()))


@memoize_on_node
def _uses_by_name(function: ast.AST) -> Mapping[str, Set[str]]:
    found: dict[str, set[str]] = {}
    for used, attribute in _uses(function):
        found.setdefault(used, set()).add(attribute)
    return found


def _uses(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Names, each with an attribute that is read of it, or with a function of torch that is given it first."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute):
            if isinstance(inner.value, ast.Name):
                yield inner.value.id, inner.attr
        elif isinstance(inner, ast.Call):
            head, _, last = (dotted(inner.func) or "").rpartition(".")
            if inner.args and (head in _FUNCTIONS_OF or last == "copy_"):
                # A list of tensors, as `torch.cat` takes it; `copy_` takes nothing but a tensor, either.
                given = inner.args[0].elts if isinstance(inner.args[0], (ast.List, ast.Tuple)) else [inner.args[0]]
                operation = "torch.Tensor.copy_" if last == "copy_" else _FUNCTIONS_OF[head] + last
                yield from ((name.id, operation) for name in given if isinstance(name, ast.Name))
        elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.MatMult):
            for side in (inner.left, inner.right):
                if isinstance(side, ast.Name):
                    yield side.id, "__matmul__"
        elif isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Name) and _selects_along(inner.slice):
            yield inner.value.id, SLICED


def _selects_along(index: ast.expr) -> bool:
    """Several dimensions with `:`, `None` or `...` among them, which keys of a dict do not have."""
    parts = index.elts if isinstance(index, ast.Tuple) else []
    return any(isinstance(p, ast.Slice) or (isinstance(p, ast.Constant) and p.value in (None, Ellipsis)) for p in parts)


@memoize_on_node
def _given_to(function: ast.AST) -> Mapping[str, Set[tuple[str, int]]]:
    """Names that are passed to functions of torch, or to what may be methods of tensors: operation and position."""
    found: dict[str, set[tuple[str, int]]] = {}
    for inner in ast.walk(function):
        if not isinstance(inner, ast.Call):
            continue
        head, _, last = (dotted(inner.func) or "").rpartition(".")
        if head in _FUNCTIONS_OF:
            operation, first = _FUNCTIONS_OF[head] + last, 0
        elif isinstance(inner.func, ast.Attribute):
            operation, first = f"torch.Tensor.{inner.func.attr}", 1
        else:
            continue
        for position, argument in enumerate(inner.args, first):
            if isinstance(argument, ast.Name):
                found.setdefault(argument.id, set()).add((operation, position))
    return found
