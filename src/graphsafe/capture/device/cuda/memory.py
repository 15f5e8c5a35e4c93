"""Reads and writes tensors for the probes: stores, poison, and allocations that overwrite freed memory. Also finds the
lines that allocated and freed memory: the history of the caching allocator has the Python frames. Reading this history
does not change the allocator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from graphsafe.capture.device import bits
from graphsafe.capture.device.cuda.compiler_import import memory_segments, no_compiler_import
from graphsafe.capture.device.cuda.nodes import SHARED, Segments
from graphsafe.capture.device.protocol import MemoryEvent
from graphsafe.capture.shared.frames import absolute, is_user_file
from graphsafe.report.model import CallSite

_BLOCKS = (512, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 32 << 20)
"Sizes for both of the allocator's pools, small and large."
_LARGEST_SMALL = 1 << 20
"The allocator does not serve larger requests from the pool of small blocks, even if that pool has larger free blocks."
_MOST_FILLED = 4 << 30


def store(tensor: torch.Tensor, values: torch.Tensor) -> None:
    with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
        tensor.detach().copy_(values)


def poison(tensor: torch.Tensor) -> None:
    with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
        bits.poison(tensor)


def churn(device: torch.device, *streams: torch.cuda.Stream) -> None:
    """Allocate blocks, fill them with NaN and free them, on every stream on which the step may have freed blocks. A
    graph that still reads freed memory then reads NaN."""
    for stream in (torch.cuda.current_stream(device), *streams):
        _fill_blocks(device, stream, [size for size in _BLOCKS for _ in range(4)])


def fill_freed(device: torch.device, *streams: torch.cuda.Stream) -> None:
    """Overwrite every free block that the allocator keeps, on the streams on which the step may have freed blocks. Each
    request has the size of a free block, so it gets that block, until no free block is left."""
    segments = memory_segments()
    own = [one for one in segments if one["device"] == device.index and tuple(one["segment_pool_id"]) == SHARED]
    used = (torch.cuda.default_stream(device), torch.cuda.current_stream(device), *streams)
    for stream in {one.cuda_stream: one for one in used}.values():
        free = free_sizes([segment for segment in own if segment["stream"] == stream.cuda_stream])
        _fill_blocks(device, stream, free)


def _fill_blocks(device: torch.device, stream: torch.cuda.Stream, sizes: Sequence[int]) -> None:
    """Allocate blocks of these sizes, fill them with NaN and free them."""
    with torch.cuda.stream(stream):
        blocks = [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes]
        for block in blocks:
            block.fill_(bits.NAN_BYTE)
        torch.cuda.synchronize(device)


def free_sizes(segments: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the sizes of requests that together take all free blocks of these segments, up to a total of
    `_MOST_FILLED` bytes."""
    sizes: list[int] = []
    for segment in segments:
        for block in segment["blocks"]:
            size = int(block["size"]) if block["state"] == "inactive" else 0
            most = _LARGEST_SMALL if segment["segment_type"] == "small" else size
            while size > 0:
                sizes.append(min(size, most))
                size -= sizes[-1]
    room = _MOST_FILLED
    return [size for size in sorted(sizes) if (room := room - size) >= 0]


@contextmanager
def allocations_watched(index: int) -> Iterator[list[MemoryEvent]]:
    found: list[MemoryEvent] = []
    torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python")
    try:
        yield found
    finally:
        with no_compiler_import():
            history: Any = torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(None)
    found += memory_events(history["device_traces"][index], history["segments"])


def memory_events(trace: Sequence[Mapping[str, Any]], segments: Sequence[Mapping[str, Any]]) -> list[MemoryEvent]:
    """Read the trace of one device. A block counts as held until it can be reused. If other streams still use a block
    when it is released, it can be reused only when these streams have finished."""
    known = Segments.of(segments)
    found = []
    for entry in trace:
        if entry["action"] == "alloc":
            block, place = int(entry["addr"]), innermost_line(entry)
            found.append(MemoryEvent(block, int(entry["size"]), place, known.pool(block) not in (None, SHARED)))
        elif entry["action"] == "free_completed":
            found.append(MemoryEvent(int(entry["addr"]), 0))
    return found


def innermost_line(entry: Mapping[str, Any]) -> CallSite | None:
    """Return the line of the innermost frame of the user. In an entry of the allocator, the innermost frame is
    first."""
    for frame in entry.get("frames") or ():
        if is_user_file(frame["filename"]):
            return CallSite(absolute(frame["filename"]), int(frame["line"]), frame["name"])
    return None
