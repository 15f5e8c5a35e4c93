"""Finds the block or storage of GPU memory that contains an address, and the line that allocated it. Also finds the
tensors that a graph reads and that earlier graphs of its pool have made."""

from __future__ import annotations

import weakref
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from graphsafe.capture.device.cuda.compiler_import import memory_segments
from graphsafe.capture.device.cuda.memory import innermost_line
from graphsafe.capture.device.cuda.nodes import SHARED, GraphNode
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import addresses_of
from graphsafe.run.child.sight import Touch
from graphsafe.run.facts import PoolLine


def record_stacks() -> None:
    """Make the allocator record the stack of each allocation, from the first use of CUDA in this process on."""
    record = partial(torch.cuda.memory._record_memory_history, "state", context="state", stacks="python")
    torch.cuda._lazy_call(record)  # type: ignore[no-untyped-call]


def makers() -> dict[int, CallSite]:
    """Return a dict that maps the address of each block in use to the line of the user's code that allocated the
    block."""
    return {int(block["address"]): line for _, block in blocks_in_use() if (line := innermost_line(block)) is not None}


def active_addresses(pool: tuple[int, ...]) -> frozenset[int]:
    """Return the addresses of the blocks in use in a pool."""
    return frozenset(int(block["address"]) for owner, block in blocks_in_use() if owner == pool)


def pool_lines(devices: Collection[str]) -> tuple[PoolLine, ...]:
    """Return, for each line, the number of bytes that it allocated in graphs' pools on these devices. The largest
    numbers come first.

    If no device is given, all devices are included.
    """
    found: Counter[CallSite] = Counter()
    for pool, block in blocks_in_use(devices):
        line = innermost_line(block)
        if pool != SHARED and line is not None:
            found[line] += int(block["size"])
    return tuple(PoolLine(one, size) for one, size in found.most_common())


def blocks_in_use(devices: Collection[str] = ()) -> Iterator[tuple[tuple[int, ...], Mapping[str, Any]]]:
    """Yield the allocator's blocks in use on these devices, or on all devices, each with its pool."""
    segments = memory_segments()
    for segment in segments:
        if devices and f"cuda:{segment['device']}" not in devices:
            continue
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                yield tuple(segment["segment_pool_id"]), block


def holders_of(words: Iterable[int], sizes: Mapping[int, int]) -> dict[int, int]:
    """Return the words that are addresses inside a piece of memory, each with the first address of that piece.

    `sizes` maps the first address of each piece to its size.
    """
    starts = sorted(sizes)
    found = {}
    for word in words:
        at = bisect_right(starts, word) - 1
        if at >= 0 and word < starts[at] + sizes[starts[at]]:
            found[word] = starts[at]
    return found


def borrowed(
    nodes: Sequence[GraphNode],
    inside: Sequence[int],
    tensors: Iterable[torch.Tensor],
    earlier: Iterable[tuple[weakref.ref[Any], Sequence[int]]],
) -> list[tuple[Touch, Sequence[Any]]]:
    """Return the tensors that a graph uses, each with the earlier graphs that use it.

    `inside` are the sorted addresses in the pool that the graph uses. `tensors` existed in the pool when the capture
    began. A tensor that the graph first fills by a copy is left out.
    """
    graphs = [(graph, words) for reference, words in earlier if (graph := reference()) is not None]
    found: dict[int, tuple[Touch, Sequence[Any]]] = {}
    for tensor in tensors:
        place = addresses_of(tensor.untyped_storage())
        others = [graph for graph, words in graphs if is_within(words, place)]
        if others and place.start not in found and is_within(inside, place) and _reads(nodes, place):
            found[place.start] = Touch.of(tensor, "both", False, None), others
    return list(found.values())


def is_within(words: Sequence[int], place: range) -> bool:
    """Return whether one of the sorted addresses is in this memory range."""
    at = bisect_left(words, place.start)
    return at < len(words) and words[at] in place


def _reads(nodes: Iterable[GraphNode], place: range) -> bool:
    """Return whether the first node with an address in this memory range may read the memory."""
    first = next((node for node in nodes if _uses(node.words, place)), None)
    if first is None or first.kind == "memset":
        return False
    return first.kind != "memcpy" or _uses(first.words[:1], place)


def _uses(words: Collection[int], place: range) -> bool:
    return any(word in place for word in words)
