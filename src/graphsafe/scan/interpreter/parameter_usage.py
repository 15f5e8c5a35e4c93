"""How the body of a function uses its parameters: what is read of a tensor alone makes a tensor of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from graphsafe.scan.sources.node_memo import kept
from graphsafe.scan.symbols.index import dotted

TENSOR_USES = frozenset(
    (
        "shape size view reshape transpose permute unsqueeze squeeze contiguous numel ndim dim new_zeros "
        "new_empty new_ones new_full new_tensor masked_fill masked_fill_ expand flatten softmax log_softmax "
        "argmax cuda cpu detach is_cuda unbind chunk index_select gather scatter scatter_ copy_ fill_ zero_ "
        "add_ mul_ index_copy_ data_ptr nonzero masked_select topk cumsum bincount item tolist requires_grad "
        "t T half stride view_as expand_as type_as to"
    ).split()
)
"Attributes that, read from a parameter of hot code, make it a tensor: arrays share some, but are no step's inputs."

STEP_USES = TENSOR_USES | frozenset(
    (
        "max min sum mean float long int bool any all amax amin norm abs clamp pow sqrt exp repeat tile sort argsort"
        " std var"
    ).split()
)
"Attributes that make a tensor of an argument of a root, which is given tensors if anything."


def is_used_as(function: ast.AST, name: str, telling: frozenset[str]) -> bool:
    """Whether the body uses a parameter in one of these ways."""
    return not telling.isdisjoint(_all_uses(function).get(name, ()))


@kept
def _all_uses(function: ast.AST) -> Mapping[str, Set[str]]:
    found: dict[str, set[str]] = {}
    for used, attribute in _uses(function):
        found.setdefault(used, set()).add(attribute)
    return found


_NOT_TENSORS_FIRST = (
    "is_tensor",
    "tensor",
    "device",
    "full",
    "zeros",
    "ones",
    "empty",
    "arange",
    "Size",
    "rand",
    "randn",
)
"Functions of torch whose first argument is no tensor."


def _uses(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Names and how they are used: an attribute; `view` stands for a tensor's place in a torch call or a product."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute):
            if isinstance(inner.value, ast.Name):
                yield inner.value.id, inner.attr
        elif isinstance(inner, ast.Call):
            name = dotted(inner.func) or ""
            head, _, last = name.rpartition(".")
            if head in ("torch", "F", "torch.nn.functional") and last not in _NOT_TENSORS_FIRST:
                for argument in inner.args[:1]:
                    if isinstance(argument, ast.Name):
                        yield argument.id, "view"
        elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.MatMult):
            for side in (inner.left, inner.right):
                if isinstance(side, ast.Name):
                    yield side.id, "view"
