"""Finds writes to pinned host memory that graphs copy from, while a replay may still read it.

PyTorch does not see writes by NumPy or by a library's thread. So contents are compared before each wait of the host and
before each replay. Memory that changed in between was written without a wait. Memory that a device also writes (a copy
back to the host) is not watched.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import sys
import weakref
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.shared.frames import user_frames
from graphsafe.run.child.expressions import file_tree, line_with, written_in_place
from graphsafe.run.child.names import user_frames_now
from graphsafe.run.child.refills import Frames, Refills
from graphsafe.run.child.sight import Touch

_SAMPLES = 16_384
"Number of bytes of each memory that are compared."


@dataclass(slots=True)
class _Input:
    storage: weakref.ref[torch.UntypedStorage]
    checksum: int


class HostInputs:
    def __init__(self, refills: Refills) -> None:
        self._refills = refills
        self._inputs: dict[int, _Input] = {}
        self._left: set[int] = set()
        "Storages that a device also writes."

    def captured(self, touches: Iterable[Touch]) -> None:
        """Begin to watch the host memory from which a graph copies, unless the graph also writes it."""
        for touch in touches:
            number = int(touch.storage._cdata)
            if touch.access != "read":
                self.leave([number])
            elif number not in self._inputs and number not in self._left:
                self._inputs[number] = _Input(weakref.ref(touch.storage), _checksum(touch.storage))

    def watched(self) -> set[int]:
        """Return the numbers of the storages whose contents are compared."""
        return set(self._inputs)

    def leave(self, storages: Iterable[int]) -> None:
        """Stop watching these storages, because a device writes to them."""
        for number in self._inputs.keys() & set(storages):
            self._left.add(number)
            del self._inputs[number]

    def look(self) -> None:
        """Compare the contents; call it before the host has waited, and before a replay."""
        for number, one in list(self._inputs.items()):
            storage = one.storage()
            if storage is None:
                del self._inputs[number]
                self._refills.dropped(number)
                continue
            checksum = _checksum(storage)
            if checksum != one.checksum:
                one.checksum = checksum
                self._refills.host_wrote([number], functools.partial(_written_at, storage))


def _checksum(storage: torch.UntypedStorage) -> int:
    size = storage.nbytes()
    if not size:
        return 0
    content = memoryview((ctypes.c_char * size).from_address(storage.data_ptr()))
    # With an odd stride the samples include every byte position within a number
    return zlib.crc32(content[:: size // _SAMPLES | 1].tobytes())


def _written_at(storage: torch.UntypedStorage) -> Frames:
    """Return the line of the running functions that writes to the memory; if none is found, the current line."""
    begin = storage.data_ptr()
    addresses = range(begin, begin + storage.nbytes())
    with torch._C.DisableTorchFunction():
        line = line_with(user_frames_now(sys._getframe(1)), _in_place, lambda value: _address(value) in addresses)
    return user_frames()[0] if line is None else (line,)


@functools.lru_cache(maxsize=64)
def _in_place(path: str) -> tuple[tuple[ast.expr, int], ...]:
    """Return the expressions that the statements of a file write in place, with their lines."""
    nodes = ast.walk(file_tree(path))
    return tuple((target, target.lineno) for node in nodes for target in written_in_place(node))


def _address(value: Any) -> int | None:
    """Return where the data of a tensor or a NumPy array begins."""
    if issubclass(type(value), torch.Tensor):
        return int(value.data_ptr())
    interface = value.__array_interface__ if type(value).__module__ == "numpy" and hasattr(value, "ctypes") else None
    return None if interface is None else int(interface["data"][0])
