"""Undoes the changes of a run of the step, many times and quickly, for measuring and for long runs."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch

from graphsafe.capture.child.state.snapshot import Snapshot
from graphsafe.capture.device.protocol import Device

_SHARE_OF_FREE = 0.25
"Copies that would take more of the device's free memory than this share stay on the host."


def copies_of(device: Device, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copy tensors, on the device if they fit."""
    free = device.memory().free
    fit = free is None or sum(tensor.nbytes for tensor in tensors) < _SHARE_OF_FREE * free
    return [device.copied(tensor) if fit else device.to_host(tensor) for tensor in tensors]


class Undo:
    """Puts back the values of tensors that have changed since the snapshot. The tensors are held weakly, so that memory
    that the target drops is freed."""

    def __init__(self, device: Device, before: Snapshot) -> None:
        """Put the values back for the first time. Raises StateError."""
        changed = [path for path in before.changed() if path in before.values]
        before.put_back_values(changed)
        tensors = [before.tensors[path] for path in changed]
        self._device = device
        self._kept: list[tuple[weakref.ref[torch.Tensor], torch.Tensor]] = [
            (weakref.ref(tensor), value) for tensor, value in zip(tensors, copies_of(device, tensors), strict=True)
        ]

    def undo(self) -> None:
        for reference, values in self._kept:
            tensor = reference()
            if tensor is not None:
                self._device.store(tensor, values)
