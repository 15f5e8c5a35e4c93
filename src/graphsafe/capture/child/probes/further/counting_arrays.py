"""Finds arrays on the host that count: each step adds the same amounts to their elements. An engine keeps the lengths
of its sequences in such arrays."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from typing import Any

import torch

from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import ReachableState, held_at, shared_tensor
from graphsafe.capture.device.modes import outside_modes

_MOST_ELEMENTS = 4096
"Larger arrays hold data."
_COUNTING = (torch.int32, torch.int64, torch.float32, torch.float64)
"Smaller dtypes cannot represent the numbers of far steps."


class CountingArrays:
    """The arrays of NumPy and the tensors on the host that count."""

    def __init__(self, session: Session, reach: ReachableState, number: int) -> None:
        """Read the arrays in the state `reach` after step `number`."""
        self._session, self._number = session, number
        self._first = {path: array.clone() for path, array in self._arrays(reach)}
        self._moves: dict[str, tuple[tuple[Any, Any], torch.Tensor, torch.Tensor]] = {}
        "Path of an array -> its container and key, its values, and the amounts by which a step changes them."

    def look(self, reach: ReachableState, number: int, paths: Collection[str]) -> None:
        """Find the arrays among `paths` that have counted since they were read. `reach` is the state after step
        `number`."""
        steps = number - self._number
        for path, array in self._arrays(reach):
            first = self._first.get(path)
            if path not in paths or first is None or (first.shape, first.dtype) != (array.shape, array.dtype):
                continue
            with outside_modes():
                by = ((array - first) / steps).to(array.dtype)
                if by.any() and _is_near(array, first + steps * by):
                    self._moves[path] = reach.owners[path], array.clone(), by

    def __bool__(self) -> bool:
        return bool(self._moves)

    def set_ahead(self, steps: int) -> None:
        """Set each array to the values that it has after `steps` more steps."""
        for owner, values, by in self._moves.values():
            array = self._array_at(owner)
            if array is not None:
                with outside_modes():
                    array.copy_(values + steps * by)

    def are_ahead(self, steps: int) -> bool:
        """Return whether each array has the values that it should have after `steps` more steps."""
        with outside_modes():
            return all(
                _is_near(self._array_at(owner), values + steps * by) for owner, values, by in self._moves.values()
            )

    def _arrays(self, reach: ReachableState) -> Iterator[tuple[str, torch.Tensor]]:
        for path, owner in reach.owners.items():
            array = self._array_at(owner) if not issubclass(type(owner[0]), tuple) else None
            if array is not None:
                yield path, array

    def _array_at(self, owner: tuple[Any, Any]) -> torch.Tensor | None:
        """Return the array in a container, as a tensor that shares its memory; None if no array that may count is
        there."""
        held, numpy = held_at(*owner), sys.modules.get("numpy")
        with outside_modes():
            array: torch.Tensor | None
            if type(held) in (torch.Tensor, torch.nn.Parameter):
                array = torch.Tensor.detach(held)
            elif numpy is not None and type(held) is numpy.ndarray:
                array = shared_tensor(held)
            else:
                return None
            if array is None or array.dtype not in _COUNTING or not 0 < array.numel() <= _MOST_ELEMENTS:
                return None
            is_plain = array.layout is torch.strided and array.device.type == "cpu"
            return array if is_plain and not self._session.is_on_gpu(array) else None


def _is_near(array: torch.Tensor | None, expected: torch.Tensor) -> bool:
    """Return whether an array has the expected values. The last digits may differ, because sums of floats are
    rounded."""
    return array is not None and array.shape == expected.shape and torch.allclose(array, expected, rtol=1e-6, atol=0.0)
