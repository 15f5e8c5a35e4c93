"""Finds writes to pinned host memory while a replay or an eager asynchronous copy may still read the memory.

PyTorch does not see writes by NumPy or by a thread of a library. So the contents are compared before each wait of the
host and before each replay. If the contents have changed between two comparisons, the host wrote without a wait. Memory
that a device also writes, such as the target of a copy to the host, is not watched.
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

from graphsafe.capture.device.races import Access as Elements
from graphsafe.capture.shared.frames import user_frames, user_frames_now
from graphsafe.run.child.frozen.lines import line_with
from graphsafe.run.child.names import addresses_of
from graphsafe.run.child.refills import ALL, Parts, Refills, Stream
from graphsafe.run.child.sight import Touch
from graphsafe.run.child.source import file_tree, written_in_place
from graphsafe.run.facts import Calls

_SAMPLES = 16_384
"At most this many bytes of each memory are compared."
_MOST_COPIES = 64
"The memory of at most this many running copies is compared."


@dataclass(slots=True)
class HostMemory:
    """Host memory that a device reads."""

    storage: weakref.ref[torch.UntypedStorage]
    memory: range
    "The addresses that the device reads."
    checksum: int = 0

    @property
    def around(self) -> range:
        """Return the addresses of the whole storage. The range is empty if the storage was freed or moved, for
        example by a resize."""
        storage = self.storage()
        found = range(0) if storage is None else addresses_of(storage)
        return found if self.memory.start in found else range(0)


class HostInputs:
    def __init__(self, refills: Refills) -> None:
        self._refills = refills
        self._inputs: dict[tuple[int, Elements | None], HostMemory] = {}
        "(Number of the memory, the part that a graph reads or None for the whole) -> the watched memory."
        self._left: set[int] = set()
        "Numbers of storages that a device also writes."

    def captured(self, touches: Iterable[Touch], reads: Parts) -> None:
        """Begin to watch the host memory from which a graph copies. Memory that the graph also writes is left out.

        `reads` are the parts of storages that the graph reads.
        """
        for touch in touches:
            number = touch.number
            if touch.access != "read":
                self.leave([number])
            elif number not in self._left:
                for part in reads.get(number, ALL) or (None,):
                    dense = part if part is not None and part.is_dense else None
                    memory = addresses_of(touch.storage) if dense is None else range(dense.address, dense.end)
                    if (number, dense) not in self._inputs:
                        self._inputs[number, dense] = HostMemory(weakref.ref(touch.storage), memory, checksum(memory))

    def copied(self, stream: Stream, source: torch.Tensor) -> None:
        """Record that a stream is about to copy from a contiguous pinned tensor.

        The negated address of the tensor becomes the number of this memory.
        """
        storage, begin = source.untyped_storage(), source.data_ptr()
        self.look()
        under_way = [number for number, _ in self._inputs if number < 0 and self._refills.is_read(number)]
        if storage._cdata not in self._left and len(under_way) < _MOST_COPIES:
            memory = range(begin, begin + source.nbytes)
            self._inputs[-begin, None] = HostMemory(weakref.ref(storage), memory, checksum(memory))
            self._refills.copied(stream, -begin)

    def watched(self) -> set[int]:
        """Return the numbers of the memories whose contents are compared."""
        return {number for number, _ in self._inputs}

    def leave(self, storages: Iterable[int]) -> None:
        """Stop watching these storages, because a device writes to them."""
        left = set(storages)
        self._left |= self.watched() & left
        for key, one in list(self._inputs.items()):
            storage = one.storage()
            if key[0] in left or (storage is not None and storage._cdata in left):
                del self._inputs[key]

    def look(self) -> None:
        """Compare the contents. Call it before a wait of the host is recorded, and before each replay."""
        for (number, part), one in list(self._inputs.items()):
            around = one.around
            if not around or (number < 0 and not self._refills.is_read(number)):
                del self._inputs[number, part]
                self._refills.dropped(number)
                continue
            now = checksum(one.memory)
            if now != one.checksum:
                one.checksum = now
                self._refills.host_wrote(number, functools.partial(written_at, around), part)


def checksum(memory: range) -> int:
    """Return a checksum of the memory. If the memory is large, only evenly spaced bytes are used."""
    size = len(memory)
    if not size:
        return 0
    content = memoryview((ctypes.c_char * size).from_address(memory.start))
    # With an odd stride, the samples include every byte position within a number.
    return zlib.crc32(content[:: size // _SAMPLES | 1].tobytes())


def written_at(addresses: range) -> Calls:
    """Return the line that writes to the memory: a line of a running function, or of a function that it calls. Return
    the current calls if no such line is found."""
    with torch._C.DisableTorchFunction():
        frames = user_frames_now(sys._getframe(1))
        line = line_with(frames, _in_place, lambda value: _address(value) in addresses, also_called=True)
    return user_frames()[0] if line is None else (line,)


@functools.lru_cache(maxsize=64)
def _in_place(path: str) -> tuple[tuple[ast.expr, int], ...]:
    """Return the expressions that are written in place in a file, each with its line."""
    nodes = ast.walk(file_tree(path))
    return tuple((target, target.lineno) for node in nodes for target in written_in_place(node))


def _address(value: Any) -> int | None:
    """Return the address of the first element of a tensor or a NumPy array."""
    if issubclass(type(value), torch.Tensor):
        return int(value.data_ptr())
    interface = value.__array_interface__ if type(value).__module__ == "numpy" and hasattr(value, "ctypes") else None
    return None if interface is None else int(interface["data"][0])
