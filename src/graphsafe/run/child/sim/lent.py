"""Finds the tensors in a pool that an earlier graph of the pool has made and that a given graph reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch

from graphsafe.capture.device.sim.graphs import CUDAGraph
from graphsafe.capture.device.sim.tags import tag_of
from graphsafe.report.ledger.model import Access
from graphsafe.run.child.names import storage_number
from graphsafe.run.child.sight import Touch

_SMALL = 1 << 20
"""The size limit of small blocks. The allocator keeps larger blocks in other segments, so a small tensor never gets the
memory of a large one."""


def borrowed(
    graph: CUDAGraph, uses: Iterable[tuple[torch.Tensor, Access]], users: Iterable[tuple[CUDAGraph, Collection[int]]]
) -> list[tuple[Touch, Sequence[Any]]]:
    """Return the tensors of other captures that a graph uses and does not write first, each with the other graphs that
    use it.

    `uses` are the tensors of the graph's operations in order, and `users` are graphs with the storages that they use.
    """
    others = [(one, numbers) for one, numbers in users if one is not graph]
    same = [(one, numbers) for one, numbers in others if one.pool() == graph.pool()]
    captures = {one.captured_in for one, _ in same} - {None}
    found: dict[int, tuple[Touch, Sequence[Any]] | None] = {}
    for tensor, access in uses:
        tag, number = tag_of(tensor), storage_number(tensor)
        if tag is None or number is None or number in found or tag.session not in captures:
            continue
        makers = [one for one, numbers in same if number in numbers]
        found[number] = None if access == "write" else (Touch.of(tensor, access, False, None), makers)
    return [one for one in found.values() if one is not None]


def would_take(sizes: Iterable[int], place: range) -> bool:
    """Return whether a graph with tensors of these sizes in its pool may get the memory of a freed tensor. The
    allocator's choice of memory is not simulated."""
    is_small = len(place) <= _SMALL
    return any((size <= _SMALL) == is_small for size in sizes if size)
