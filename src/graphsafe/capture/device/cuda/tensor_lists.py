"""The arguments of PyTorch's kernels over lists of tensors: those of `torch._foreach_*` and of fused optimizers.

Such a kernel has one large argument with room for many tensors. PyTorch fills its first places. The others hold what
the host's stack held before, often addresses of an earlier call's tensors, which the kernel never uses. These layouts
are those of ATen/native/cuda/MultiTensorApply.cuh in PyTorch 2.6 to 2.13. Seen on an H200 with torch 2.11: a graph of
`Adam.step` had the address of a gradient of the warm-up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_KIND = re.compile(r"(FusedOptimizerTensorList|TensorListScalarList|TensorList)MetadataI(?:.*?)Li([1-5])EE")
"Matches the mangled type of the argument: its kind and its number of lists."
_WORD = 8


@dataclass(frozen=True, slots=True)
class _Room:
    """The room of one argument. Each table is for one to five lists."""

    tensors: tuple[int, ...]
    with_scalars: tuple[int, ...]
    blocks: int
    index: int
    "The bytes of a tensor's number."


_ROOMS = (
    _Room((110, 64, 48, 36, 30), (96, 64, 48, 36, 30), 320, 1),
    _Room((770, 448, 336, 252, 210), (672, 448, 336, 252, 210), 2240, 2),  # built with CUDA 13
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """An argument begins with columns of one word for each tensor, such as addresses and numbers of elements."""

    columns: int
    tensors: int
    "The number of tensors for which there is room."
    numbers: int
    "The byte at which each block's tensor is listed."
    index: int
    blocks: int
    tail: int = 0
    "Bytes behind the blocks' tensors and parts."

    @property
    def bytes(self) -> int:
        end = self.numbers + self.blocks * (self.index + 4) + self.tail
        return end + -end % _WORD


def without_unused_places(kernel: str, blocks: int, argument: bytes) -> bytes:
    """Return a kernel's argument with zeros in the places that hold no tensor; other arguments as they are.

    `kernel` is the mangled name, and `blocks` the number of blocks of the launch.
    """
    kind = _KIND.search(kernel)
    known = () if kind is None else _layouts(kind[1], int(kind[2]))
    layout = next((one for one in known if one.bytes == len(argument)), None)
    if layout is None or not 0 < blocks <= layout.blocks:
        return argument
    numbers = argument[layout.numbers : layout.numbers + blocks * layout.index]
    used = 1 + max(
        int.from_bytes(numbers[at : at + layout.index], "little") for at in range(0, len(numbers), layout.index)
    )
    cleared = bytearray(argument)
    for column in range(layout.columns if used < layout.tensors else 0):
        begin, end = (column * layout.tensors + used) * _WORD, (column + 1) * layout.tensors * _WORD
        cleared[begin:end] = bytes(end - begin)
    return bytes(cleared)


def _layouts(kind: str, lists: int) -> Iterator[_Layout]:
    for room in _ROOMS:
        tensors = room.tensors[lists - 1]
        if kind == "TensorListScalarList":
            tensors, columns = room.with_scalars[lists - 1], lists + 1
            for scalar in (1, 2, 4, 8, 16):
                numbers = tensors * (columns * _WORD + scalar)
                yield _Layout(columns, tensors, numbers, room.index, room.blocks)
        else:
            # A fused optimizer has a column of step counters besides.
            columns = lists + (2 if kind.startswith("Fused") else 1)
            yield _Layout(columns, tensors, columns * tensors * _WORD, room.index, room.blocks, tail=4)
