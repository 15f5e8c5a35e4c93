"""Finds graphs that read weights which autocast had cast before the capture.

Autocast keeps these casts in a cache and frees them when its outermost block ends. They have no tensor in Python. A
graph whose warm-up ran in the same block reads the casts of the warm-up. The graph has no kernel that casts the
weights, so it reads freed memory after the block.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch

from graphsafe.capture.device.cuda.nodes import SHARED, GraphNode
from graphsafe.capture.shared.frames import user_frames
from graphsafe.capture.shared.replaced import replaced
from graphsafe.report.text import count
from graphsafe.run.child.cuda.memory import blocks_in_use, holders_of
from graphsafe.run.facts import CASTS, OutsideUse


class Casts:
    """Memory that a graph reads and that autocast's cache may hold. No tensor in Python refers to it."""

    def __init__(self, blocks: Mapping[int, int], certain: Collection[int]) -> None:
        """Make the record. `blocks` maps the address of each block to its size. `certain` are the addresses that are
        certainly addresses, and not ordinary numbers among a kernel's arguments."""
        self._blocks, self._certain = blocks, certain
        self.replays: Callable[[], int] = int
        "Returns how often the graph was replayed."
        self._freed: OutsideUse | None = None

    def cleared(self, still: Collection[int]) -> None:
        """Record that the running line has cleared the cache. `still` are the addresses of the blocks that are still in
        use."""
        gone = self._blocks.keys() - still
        if gone:
            size, certain = sum(self._blocks[one] for one in gone), not gone.isdisjoint(self._certain)
            text, frames, lost = count(len(gone), "block"), user_frames()[0], self.replays()
            self._freed = OutsideUse(CASTS, text, size, None, "read", certain, "freed", frames, lost_after=lost)

    def facts(self) -> tuple[OutsideUse, ...]:
        return () if self._freed is None else (self._freed,)


class AutocastCache:
    """Watches for the moment when autocast clears its cache, while graphs may read from it."""

    def __init__(self) -> None:
        self._waiting: list[Casts] = []
        self._entered = contextlib.ExitStack()

    def captured(self, nodes: Iterable[GraphNode], tensors: Callable[[], Iterable[torch.Tensor]]) -> Casts | None:
        """Begin to watch the memory that a graph reads, if the graph was captured under autocast with a cache.
        `tensors` returns all tensors that Python knows."""
        if not torch.is_autocast_enabled() or not torch.is_autocast_cache_enabled():
            return None
        nodes = list(nodes)
        used = _blocks_with({word for node in nodes for word in node.words})
        for one in tensors() if used else ():
            used.pop(one.untyped_storage().data_ptr(), None)
        if not used:
            return None
        casts = Casts(used, _blocks_with({word for node in nodes for word in node.pointers}))
        if not self._waiting:
            self._entered.enter_context(
                replaced((torch, "clear_autocast_cache", self._clearing(torch.clear_autocast_cache)))
            )
        self._waiting.append(casts)
        return casts

    def close(self) -> None:
        self._waiting = []
        self._entered.close()

    def _clearing(self, original: Callable[[], None]) -> Any:
        def clear_autocast_cache() -> None:
            original()
            waiting = self._waiting
            self.close()
            with contextlib.suppress(Exception):  # an error of graphsafe must not stop the program
                still = {int(block["address"]) for pool, block in blocks_in_use() if pool == SHARED}
                for one in waiting:
                    one.cleared(still)

        clear_autocast_cache._torchdynamo_disable = True  # type: ignore[attr-defined]
        return clear_autocast_cache


def _blocks_with(words: Collection[int]) -> dict[int, int]:
    """Return the blocks that contain one of these addresses, are in use and do not belong to a graph's pool, with their
    sizes."""
    sizes = {int(block["address"]): int(block["size"]) for pool, block in blocks_in_use() if pool == SHARED}
    return {at: sizes[at] for at in holders_of(words, sizes).values()}
