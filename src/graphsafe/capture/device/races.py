"""Finds races in a graph: two nodes use the same memory, at least one of them writes to it, and no path leads from one
to the other.

A replay may run such nodes in either order, or at the same time. Each device reports which memory a node uses and how
nodes are ordered. This module compares these accesses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from graphsafe.capture.device.modes import outside_modes
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.order import Race

_MOST_RACES = 16
_MOST_ELEMENTS = 1 << 26
"""If two strided views span more elements than this in total, they count as overlapping whenever their outer bounds
overlap."""


@dataclass(frozen=True, slots=True)
class Access:
    """Memory that a node reads or writes, as the elements of a strided tensor."""

    address: int
    "The address of the first element, in bytes."
    itemsize: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    "The strides in elements."
    writes: bool

    @property
    def end(self) -> int:
        """The address after the last element."""
        reach = sum((count - 1) * step for count, step in zip(self.size, self.stride, strict=True))
        return self.address + (reach + 1) * self.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie side by side, in any order of the dimensions."""
        expected = 1
        for step, count in sorted(zip(self.stride, self.size, strict=True)):
            if count > 1 and step != expected:
                return False
            expected *= count
        return True


@dataclass(frozen=True, slots=True)
class Work:
    """A node, or all nodes of one operation, and the memory that they use."""

    op: str
    frames: tuple[CallSite, ...]
    span: Span | None
    accesses: tuple[Access, ...]


def access_of(tensor: torch.Tensor, writes: bool) -> Access | None:
    """Return the memory that an operation uses through this tensor. Return None for a tensor without elements or
    without strided memory."""
    if tensor.layout != torch.strided or tensor.is_nested or tensor.numel() == 0:
        return None
    try:
        address = tensor.data_ptr()
    except RuntimeError:  # a wrapper subclass has no memory of its own
        return None
    return (
        Access(address, tensor.element_size(), tuple(tensor.shape), tuple(tensor.stride()), writes) if address else None
    )


Unordered = Callable[[Sequence[int], Sequence[int]], "tuple[int, int] | None"]
"""Returns a node of the first list and a node of the second list between which there is no path, or None if there are
no such nodes. The node that was captured first comes first."""


def races_in(work: Sequence[Work], unordered: Unordered) -> tuple[Race, ...]:
    """Return the races, each pair of places once. `unordered` is given positions in `work`."""
    users: dict[tuple[Access, str, tuple[CallSite, ...]], dict[int, None]] = {}
    for number, one in enumerate(work):
        for access in one.accesses:
            users.setdefault((access, one.op, one.frames[-1:]), {})[number] = None
    # A loop uses the same memory at the same place many times. All these uses are compared together.
    uses = sorted(((key[0], list(numbers)) for key, numbers in users.items()), key=lambda use: use[0].address)
    reads: list[tuple[int, Access, list[int]]] = []
    writes: list[tuple[int, Access, list[int]]] = []
    pairs: set[tuple[int, int]] = set()
    for access, numbers in uses:
        use = access.end, access, numbers
        writes = [one for one in writes if one[0] > access.address]
        if access.writes:
            writes.append(use)
            reads = [one for one in reads if one[0] > access.address]
        else:
            reads.append(use)
        for _, known, others in (*writes, *reads) if access.writes else writes:  # two reads never race
            pair = unordered(others, numbers)
            if pair is not None and overlap(access, known):
                pairs.add(pair)
    found: dict[tuple[object, ...], Race] = {}
    for first, second in sorted(pairs):
        earlier, later = work[first], work[second]
        key = (earlier.op, earlier.frames[-1:], later.op, later.frames[-1:])
        found.setdefault(key, Race(later.op, earlier.op, later.frames, later.span, earlier.frames))
        if len(found) == _MOST_RACES:
            break
    return tuple(found.values())


@functools.lru_cache(maxsize=1024)
def overlap(one: Access, other: Access) -> bool:
    """Return whether two accesses share an element. Two columns of one matrix, for example, share none."""
    if one.end <= other.address or other.end <= one.address:
        return False
    if one.is_dense and other.is_dense:
        return True
    start, end = min(one.address, other.address), max(one.end, other.end)
    unit = one.itemsize
    alike = unit == other.itemsize and (one.address - other.address) % unit == 0
    if not alike or (end - start) // unit > _MOST_ELEMENTS:
        return True
    with outside_modes():
        marks = torch.zeros((end - start) // unit, dtype=torch.bool)
        marks.as_strided(one.size, one.stride, (one.address - start) // unit).fill_(True)
        return bool(marks.as_strided(other.size, other.stride, (other.address - start) // unit).any())
