"""Notes which inputs on the host a step reads. Python or an operation may then depend on their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from graphsafe.capture.child.state import inputs_of
from graphsafe.capture.child.targets import Subject

_PROPERTIES = "device dtype is_cpu is_cuda is_leaf is_sparse itemsize layout nbytes ndim requires_grad shape"
_METHODS = (
    "__hash__ __len__ dim element_size get_device is_complex is_contiguous is_floating_point is_pinned is_shared "
    "nelement numel size storage_offset stride"
)
_WITHOUT_VALUES = (
    *(getattr(torch.Tensor, name).__get__ for name in _PROPERTIES.split()),
    *(getattr(torch.Tensor, name) for name in _METHODS.split()),
)
"Functions that read no values of a tensor."


class HostReads(TorchFunctionMode):
    """A mode in which steps run. `paths` are then the inputs that the steps read."""

    def __init__(self, subject: Subject, on_host: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        again = inputs_of(subject)
        self._tensors = {id(one): path for path, one in on_host.items() if again.get(path) is one}
        # Reads of an array or a buffer cannot be seen. Its tensor was made for graphsafe only.
        self.paths = {path for path in on_host if path not in self._tensors.values()}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _WITHOUT_VALUES:
            given = (self._tensors.get(id(one)) for one in tree_leaves((args, kwargs)))
            self.paths.update(path for path in given if path is not None)
        return func(*args, **(kwargs or {}))
