"""Weights that autocast has cast before a capture, on a GPU whose allocator is played by the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from graphsafe.capture.device.cuda.nodes import GraphNode
from graphsafe.run.child.cuda import casts
from graphsafe.run.child.cuda.casts import AutocastCache
from graphsafe.run.facts import CASTS

WEIGHT, CAST, WORKSPACE, POOLED = 0x1000, 0x2000, 0x3000, 0x4000


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, tuple[int, int]]]:
    """Address -> the pool of a block in use."""
    used = {WEIGHT: (0, 0), CAST: (0, 0), WORKSPACE: (0, 0), POOLED: (0, 1)}
    asked = torch.is_autocast_enabled
    with monkeypatch.context() as patch:
        patch.setattr(
            casts, "blocks_in_use", lambda: [(pool, {"address": at, "size": 256}) for at, pool in used.items()]
        )
        # Only CUDA's is played: a block of the CPU's autocast puts back at its end what this function returned before.
        patch.setattr(torch, "is_autocast_enabled", lambda kind="cuda": kind == "cuda" or asked(kind))
        yield used


class Weight:
    """A tensor that Python knows."""

    def untyped_storage(self) -> Any:
        return self

    def data_ptr(self) -> int:
        return WEIGHT


def captured(cache: AutocastCache, *words: int) -> Any:
    node = GraphNode("kernel", "gemm", words=words, pointers=words[:1])
    return cache.captured([node], lambda: [Weight()])  # type: ignore[list-item]


def test_casts_that_the_end_of_autocast_frees_are_lost(blocks: dict[int, tuple[int, int]]) -> None:
    original, cache = torch.clear_autocast_cache, AutocastCache()
    first, other = captured(cache, CAST + 8, WORKSPACE, WEIGHT), captured(cache, 3, CAST, WORKSPACE)
    first.replays = lambda: 4
    assert first.facts() == () and torch.clear_autocast_cache is not original
    del blocks[CAST]
    torch.clear_autocast_cache()
    (lost,) = first.facts()
    assert (lost.what, lost.status, lost.bytes, lost.lost_after, lost.certain) == (CASTS, "freed", 256, 4, True)
    assert lost.frames[-1].path == __file__ and not other.facts()[0].certain
    assert torch.clear_autocast_cache is original


def test_graphs_that_read_only_tensors_workspaces_and_their_own_casts_lose_nothing(
    blocks: dict[int, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, cache = torch.clear_autocast_cache, AutocastCache()
    assert captured(cache, WEIGHT, POOLED, 5) is None and torch.clear_autocast_cache is original
    seen = captured(cache, WORKSPACE + 255, WORKSPACE + 256)
    del blocks[CAST]
    torch.clear_autocast_cache()
    assert seen.facts() == ()
    assert captured(cache, WORKSPACE) is not None
    cache.close()
    assert torch.clear_autocast_cache is original
    for name in ("is_autocast_enabled", "is_autocast_cache_enabled"):
        with monkeypatch.context() as patch:
            patch.setattr(torch, name, lambda *_: False)
            assert captured(cache, WORKSPACE) is None


def test_autocast_clears_its_cache_through_the_watched_function(blocks: dict[int, tuple[int, int]]) -> None:
    cache = AutocastCache()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        seen = captured(cache, CAST)
        del blocks[CAST]
    assert len(seen.facts()) == 1 and not torch.is_autocast_enabled("cpu")
