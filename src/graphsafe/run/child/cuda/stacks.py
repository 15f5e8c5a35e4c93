"""Finds the lines of the program that allocated the GPU memory in use. The allocator records them with Python's
frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from graphsafe.capture.device.cuda.compiler_import import memory_segments
from graphsafe.capture.device.cuda.memory import innermost_line
from graphsafe.capture.device.cuda.nodes import SHARED
from graphsafe.report.model import CallSite
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
    """Return the bytes in the pools of graphs on these devices, by the line that allocated them, largest first.

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
