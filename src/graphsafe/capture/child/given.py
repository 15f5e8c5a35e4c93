"""Builds an object that another process has written, on the device of this process."""

from __future__ import annotations

import linecache
import pickle
import sys
from pathlib import Path
from typing import Any

import torch

from graphsafe.capture.child.targets import takes_device


def build_given(file: str, device: torch.device, /, **axes: Any) -> Any:
    """Return the step and the arguments that the other process saved. If it saved a factory, return the factory's
    result.

    Tensors that were on the single GPU of the writing process are put on `device`. If that process had no GPU, all its
    tensors were on the host. Then all of them are put on `device`, because code that uses only the host cannot be
    captured.
    """
    folder = Path(file).parent
    storages = _storages(folder, device)

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, key: Any) -> Any:
            _, number, dtype = key
            if dtype is None:
                return storages[number]
            typed: Any = torch.storage.TypedStorage
            return typed(wrap_storage=storages[number], dtype=dtype, _internal=True)

    with (folder / "given.pickle").open("rb") as opened:
        # The header is read first, because it holds the search path for the modules that the pickle names.
        header = pickle.load(opened)
        sys.path += [entry for entry in header["path"] if entry not in sys.path]
        linecache.cache.update(
            {name: (0, None, lines, name) for name, lines in header["sources"].items() if name not in linecache.cache}
        )
        given = Unpickler(opened).load()
    if not header["is_factory"]:
        return given
    return given(*((device,) if takes_device(given, axes) else ()), **axes)


def _storages(folder: Path, device: torch.device) -> list[Any]:
    saved = torch.load(folder / "given.pt", weights_only=True)
    used = {place for place in saved["places"] if place is not None}
    pairs = zip(saved["values"], saved["places"], strict=True)
    return [_placed(values, _device_of(place, used, device)) for values, place in pairs]


def _device_of(place: str | None, used: set[str], device: torch.device) -> torch.device:
    if place is None:
        return torch.device("cpu") if used else device
    return device if len(used) == 1 else torch.device("cuda", int(place.partition(":")[2]))


def _placed(values: torch.Tensor, device: torch.device) -> Any:
    """Copy the bytes to a storage. A tensor operation allocates this storage, so that a simulated device tags it."""
    there = torch.empty(values.numel(), dtype=torch.uint8, device=device)
    there.copy_(values)
    return there.untyped_storage()
