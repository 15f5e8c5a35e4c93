"""The `ctx` of a custom autograd function. It passes tensors from the forward pass to the backward pass."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.joins import join
from graphsafe.scan.domain.values import NONE, UNKNOWN, Dict, Sequence, Tensor, Value, of_elements
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import Definition
from graphsafe.scan.symbols.default_device import default_device_covers
from graphsafe.scan.symbols.index import dotted
from graphsafe.scan.symbols.project import Project

_SAVED = join(NONE, Tensor(where="any", step=True))
"An item of `ctx.saved_tensors`: a tensor or None, because `ctx.save_for_backward` accepts nothing else."
_CONTEXT = Dict((("saved_tensors", of_elements("tuple", _SAVED)),), UNKNOWN)


def context(project: Project, owner: str) -> Value:
    """Return the `ctx` of an autograd function. Its attributes other than `saved_tensors` are tensors, sizes and flags.

    Saved tensors count as tensors of the device, except those that are certainly built from numbers on the host.
    """
    file, name = project.file_of(owner), owner.partition("::")[2]
    if file is None:
        return _CONTEXT
    methods = [facts.name for facts in file.functions.values() if facts.owner == name]
    nodes = [project.function_node(f"{file.path}::{method}") for method in methods]
    saved = [found for node in nodes if node is not None for found in _saved(node)]
    if len(saved) != 1 or not any(saved[0]) or default_device_covers(project.files, file.path)[1]:
        return _CONTEXT
    items = tuple(Tensor(where="host", step=True) if on_host else _SAVED for on_host in saved[0])
    return Dict((("saved_tensors", Sequence("tuple", items, _SAVED)),), UNKNOWN)


@memoize_on_node
def _saved(function: Definition) -> tuple[tuple[bool, ...], ...]:
    """Return, for each argument of each `save_for_backward`, whether it is a tensor that is built from numbers on the
    host."""
    calls = [call for call in inside(function, ast.Call) if (dotted(call.func) or "").endswith(".save_for_backward")]
    return tuple(tuple(_is_on_host(function, saved) for saved in call.args) for call in calls)


def _is_on_host(function: Definition, saved: ast.expr) -> bool:
    """Return whether an expression is `torch.tensor(n)` without a device, or a name that is bound only once, by
    `torch.tensor([…])`."""
    if isinstance(saved, ast.Call):
        return _names_no_device(saved)
    if not isinstance(saved, ast.Name):
        return False
    names = [one for one in inside(function, ast.Name) if one.id == saved.id and isinstance(one.ctx, ast.Store)]
    bound = [one.value for one in inside(function, ast.Assign) if names and one.targets == names]
    return any(
        isinstance(made, ast.Call)
        and _names_no_device(made)
        and isinstance(made.args[0] if made.args else None, (ast.List, ast.Tuple))
        for made in bound
    )


def _names_no_device(made: ast.Call) -> bool:
    return dotted(made.func) == "torch.tensor" and all(keyword.arg == "dtype" for keyword in made.keywords)
