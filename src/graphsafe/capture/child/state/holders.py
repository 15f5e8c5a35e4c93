"""Finds whether an object holds tensors, if its class is not the user's own."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterable
from typing import Any

import torch

from graphsafe.capture.child.state.objects import cached_per_class, module_name

_MOST = 1_000
_LEVELS = 6
"""The largest number of references in a chain from an object to a tensor in it. A list in an attribute may take two:
from the object to its `__dict__`, and from the `__dict__` to the list."""
_RUNS = ("distributed", "multiprocessing", "export", "fx", "jit", "package", "onnx", "profiler")
"""Parts of torch whose objects run steps, or describe them. Either the tensors in such objects are not state, or steps
do not use them."""


def holds_tensor(value: Any) -> bool:
    """Return whether a short chain of references leads from the object to a tensor. Chains through parameters and
    modules are ignored, because parameters and modules belong to the step itself."""
    level, seen = [value], {id(value)}
    for _ in range(_LEVELS):
        found = [item for one in level for item in _referents(one)]
        level = []
        for item in found:
            if id(item) in seen:
                continue
            kind = type(item)
            if issubclass(kind, torch.Tensor) and not issubclass(kind, torch.nn.Parameter):
                return True
            seen.add(id(item))
            level.append(item)
        if len(seen) > _MOST:
            return False
    return False


def _referents(value: Any) -> Iterable[Any]:
    kind = type(value)
    if issubclass(kind, (type, types.ModuleType, types.CodeType, torch.nn.Module, torch.Tensor)):
        return ()
    if issubclass(kind, types.FunctionType):  # a function also refers to all variables of its module
        return (value.__closure__, value.__defaults__, value.__kwdefaults__)
    return gc.get_referents(value)


@cached_per_class
def is_torch_data(kind: type) -> bool:
    """Return whether objects of this class of torch may be state: a distribution, a mask, a scaler of gradients."""
    package, _, rest = module_name(kind).partition(".")
    part = rest.partition(".")[0]
    is_loader = rest.startswith("utils.data")
    return package == "torch" and bool(part) and not part.startswith("_") and part not in _RUNS and not is_loader
