"""The places in a kernel's arguments that PyTorch does not fill.

Some kernels have one large argument with space for many tensors or dimensions. The unfilled places contain old data
from the host's stack. Often these are addresses of an earlier call's tensors, which the kernel never uses. An example
from an H100 with torch 2.11: in the graph of a backward pass, the strides of an elementwise kernel contained the
address of a gradient of the warm-up.

The layouts are those of PyTorch 2.6 to 2.13: MultiTensorApply.cuh (`torch._foreach_*`, fused optimizers),
OffsetCalculator.cuh (elementwise operations), Reduce.cuh (`sum`) and Shape.cu (`cat`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LISTS = re.compile(r"(FusedOptimizerTensorList|TensorListScalarList|TensorList)MetadataI(?:.*?)Li([1-5])EE")
"""Matches the mangled type of an argument with lists of tensors. The groups of the pattern are the kind of the argument
and its number of lists."""
_JOINED = re.compile(r"CatArrInputTensorMetadataI(?:.*?)Li(\d+)ELi\d+EE")
"""Matches the mangled type of an argument with tensors to concatenate. The group is the number of tensors for which the
argument has space."""
_WORD = 8
_MOST_DIMENSIONS = 25
_SIZES = 4 + 12 * _MOST_DIMENSIONS
"""The number of bytes in an `OffsetCalculator` before its strides: 4 for the number of dimensions, and 12 for the
divisor of each dimension."""
_STRIDES = 4 * _MOST_DIMENSIONS
"The number of bytes that the strides of one tensor take."


@dataclass(frozen=True, slots=True)
class _Space:
    """The number of tensors for which an argument has space. Each tuple has an entry for one, two, three, four and five
    lists."""

    tensors: tuple[int, ...]
    with_scalars: tuple[int, ...]
    blocks: int
    index: int
    "The number of bytes that the index of a tensor takes."


_SPACES = (
    _Space((110, 64, 48, 36, 30), (96, 64, 48, 36, 30), 320, 1),
    _Space((770, 448, 336, 252, 210), (672, 448, 336, 252, 210), 2240, 2),  # for PyTorch built with CUDA 13
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of an argument. The argument begins with columns. Each column has one word for each tensor, such as
    the address or the number of elements."""

    columns: int
    tensors: int
    "The number of tensors for which there is space."
    numbers: int
    "Byte offset of a list in the argument. The list gives, for each block, the tensor on which the block works."
    index: int
    "The number of bytes that one entry of the list `numbers` takes."
    blocks: int
    "The number of blocks for which there is space."
    tail: int = 0
    "The number of bytes at the end, after the lists with the tensor and the part of each block."

    @property
    def bytes(self) -> int:
        end = self.numbers + self.blocks * (self.index + 4) + self.tail
        return end + -end % _WORD


def without_unused_places(kernel: str, grid: tuple[int, ...], argument: bytes) -> bytes:
    """Return a kernel's argument with zeros in the places that hold no tensor. An argument without such places is
    returned unchanged. `kernel` is the kernel's mangled name, and `grid` is the number of blocks of the launch in each
    direction."""
    if len(argument) <= _WORD:
        return argument  # most arguments are a single address or number
    cleared = bytearray(argument)
    for begin, end in _unused(kernel, grid, argument):
        cleared[begin:end] = bytes(end - begin)
    return bytes(cleared)


def _unused(kernel: str, grid: tuple[int, ...], argument: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each part that holds no tensor. The end is the offset after the last byte."""
    lists, joined = _LISTS.search(kernel), _JOINED.search(kernel)
    if lists is not None:
        known = _layouts(lists[1], int(lists[2]))
        layout = next((one for one in known if one.bytes == len(argument)), None)
        if layout is not None and 0 < grid[0] <= layout.blocks:
            used = 1 + max(_numbers(argument, layout.numbers, layout.index, grid[0]))
            for column in range(layout.columns if used < layout.tensors else 0):
                yield (column * layout.tensors + used) * _WORD, (column + 1) * layout.tensors * _WORD
    elif joined is not None:
        # the argument begins with the addresses of the tensors; each tensor has a row of blocks
        space = int(joined[1]) * _WORD
        if len(argument) > space > grid[1] * _WORD:
            yield grid[1] * _WORD, space
    elif "18elementwise_kernel" in kernel:
        # This kernel's argument begins with the strides of all tensors. The addresses of the tensors and a small
        # function follow.
        yield from _strides(argument, 0, (len(argument) - _SIZES) // (_STRIDES + _WORD))
    elif "ReduceOp" in kernel and len(argument) > 8 * _WORD:
        # The argument of a reduction ends with its source, two destinations, three buffers, a base, two flags and the
        # number of destinations.
        if _numbers(argument, len(argument) - 4, 4, 1) == [1]:
            yield len(argument) - 6 * _WORD, len(argument) - 5 * _WORD
        # The strides of one input and of two outputs come before the source. The source is aligned to a word, so there
        # may be a gap of four bytes.
        end = len(argument) - 8 * _WORD
        for begin in (end - 3 * _STRIDES - 2 * _SIZES, end - 3 * _STRIDES - 2 * _SIZES - 4):
            parts = [*_strides(argument, begin, 1), *_strides(argument, begin + _SIZES + _STRIDES, 2)]
            if len(parts) == 4:
                yield from parts
                break


def _strides(argument: bytes, begin: int, tensors: int) -> Iterator[tuple[int, int]]:
    """Yield the two unused parts of an `OffsetCalculator`: first among the divisors of the dimensions, then among the
    strides of the tensors."""
    end = begin + _SIZES + tensors * _STRIDES
    dimensions = _numbers(argument, begin, 4, 1)[0] if begin >= 0 < tensors and end <= len(argument) else 0
    if 0 < dimensions <= _MOST_DIMENSIONS:
        yield begin + 4 + 12 * dimensions, begin + _SIZES
        yield begin + _SIZES + 4 * tensors * dimensions, end


def _numbers(argument: bytes, begin: int, size: int, count: int) -> list[int]:
    return [int.from_bytes(argument[at : at + size], "little") for at in range(begin, begin + count * size, size)]


def _layouts(kind: str, lists: int) -> Iterator[_Layout]:
    for space in _SPACES:
        tensors = space.tensors[lists - 1]
        if kind == "TensorListScalarList":
            tensors, columns = space.with_scalars[lists - 1], lists + 1
            for scalar in (1, 2, 4, 8, 16):
                numbers = tensors * (columns * _WORD + scalar)
                yield _Layout(columns, tensors, numbers, space.index, space.blocks)
        else:
            # A fused optimizer also has a column with step counters.
            columns = lists + (2 if kind.startswith("Fused") else 1)
            yield _Layout(columns, tensors, columns * tensors * _WORD, space.index, space.blocks, tail=4)
