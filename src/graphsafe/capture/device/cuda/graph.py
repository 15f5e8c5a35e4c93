"""A captured CUDA graph, and why one could not be captured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from graphsafe.capture.device.cuda.runtime import node_counts
from graphsafe.capture.device.protocol import CaptureFailure, StepEvent
from graphsafe.capture.frames import root_error, traceback_frames


class CudaRecording:
    def __init__(self, graph: torch.cuda.CUDAGraph, outputs: Any) -> None:
        self.outputs = outputs
        self._graph = graph

    def replay(self) -> None:
        self._graph.replay()

    def nodes(self) -> Mapping[str, int]:
        return node_counts(self._graph.raw_cuda_graph())

    def pool_bytes(self) -> int | None:
        pool = tuple(self._graph.pool())
        segments = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        return sum(int(segment["total_size"]) for segment in segments if tuple(segment["segment_pool_id"]) == pool)

    def escaped(self) -> tuple[StepEvent, ...]:
        """Not known from a plain capture: `diagnose` looks for it where a replay went wrong."""
        return ()


def failure_of(error: BaseException) -> CaptureFailure:
    """The first error of the chain: the one that reaches the user hides it."""
    root, chain = root_error(error)
    frames, span = traceback_frames(root.__traceback__)
    return CaptureFailure(
        error_type=type(root).__name__,
        message=first_line(root),
        chain=tuple(f"{type(link).__name__}: {first_line(link)}" for link in chain),
        frames=frames,
        span=span,
    )


def first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]
