"""Tensors that are passed to methods of which only the name is known, as engines call plug-ins."""

from __future__ import annotations

from collections.abc import Iterator

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.values import Tensor, as_tensor


def passed_by(arguments: Arguments) -> Iterator[Tensor]:
    """Yield the tensor of each keyword, reduced to where it is."""
    for keyword, value in arguments.keywords.items():
        tensor, certain = as_tensor(value)
        if tensor is not None and certain and tensor.where != "any":
            yield Tensor(tensor.where, tensor.dtype, pinned=tensor.pinned, step=True, name=keyword)
