"""Finds the tensors in a pool that an earlier graph of the pool has made and that a given graph reads."""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch

from graphsafe.capture.device.cuda.nodes import GraphNode
from graphsafe.run.child.names import Place
from graphsafe.run.child.sight import Touch


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
        place = storage_place(tensor.untyped_storage())
        others = [graph for graph, words in graphs if is_within(words, place)]
        if others and place[0] not in found and is_within(inside, place) and _reads(nodes, place):
            found[place[0]] = Touch.of(tensor, "both", False, None), others
    return list(found.values())


def storage_place(storage: torch.UntypedStorage) -> Place:
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def is_within(words: Sequence[int], place: Place) -> bool:
    """Return whether one of the sorted addresses is in this memory range."""
    at = bisect_left(words, place[0])
    return at < len(words) and words[at] < place[1]


def _reads(nodes: Iterable[GraphNode], place: Place) -> bool:
    """Return whether the first node with an address in this memory range may read the memory."""
    first = next((node for node in nodes if _uses(node.words, place)), None)
    if first is None or first.kind == "memset":
        return False
    return first.kind != "memcpy" or _uses(first.words[:1], place)


def _uses(words: Collection[int], place: Place) -> bool:
    return any(place[0] <= word < place[1] for word in words)
