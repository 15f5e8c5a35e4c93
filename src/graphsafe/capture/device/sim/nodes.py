"""The operations that a capture records, and their order by streams and events."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from graphsafe.capture.device.sim.effects import NodeKind
from graphsafe.capture.device.sim.perform import perform
from graphsafe.capture.device.sim.random_source import RandomSource, draw
from graphsafe.capture.device.structures import tensors_in
from graphsafe.report.model import CallSite, Span

__tracebackhide__ = True  # read by pytest: the traceback of a failure ends at the user's line

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Lane:
    """A stream of a device. Several objects of `torch.cuda.Stream` may name the same lane."""

    device_index: int
    number: int = field(default_factory=lambda: next(_numbers))
    "Zero for the device's default stream."
    priority: int = field(default=0, compare=False)
    foreign: bool = field(default=False, compare=False)
    "Whether another library made the stream and may use the stream at any time."

    @property
    def key(self) -> tuple[int, int]:
        return self.device_index, self.number


@dataclass(frozen=True, slots=True)
class Draw:
    source: RandomSource
    offset: int
    "The offset relative to the source's offset at the start of the graph."


@dataclass(frozen=True, slots=True)
class Node:
    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    """The frozen arguments: numbers with their values at the capture, tensors as aliases that keep the addresses. An
    unpinned host tensor is a copy, since a GPU gets its value."""
    outputs: tuple[torch.Tensor, ...]
    "Detached aliases of the tensors that the operation returned at capture; a replay writes into them."
    op: str
    kind: NodeKind
    draw: Draw | None
    frames: tuple[CallSite, ...]
    span: Span | None
    written: tuple[torch.Tensor, ...] = ()
    "Detached aliases of the arguments that the operation writes."
    recorded: bool = False
    "Whether autograd recorded the operation."

    def arguments(self) -> tuple[torch.Tensor, ...]:
        """Return the tensors that the operation reads and writes."""
        return *tensors_in([self.args, dict(self.kwargs)]), *self.written

    def call(self) -> Any:
        return perform(self.func, self.args, self.kwargs)

    def run(self, starts: Mapping[RandomSource, tuple[int, int]]) -> None:
        """Run the node. `starts` are the seeds and offsets from which this replay draws."""
        if torch.Tag.inplace_view in self.func.tags:  # `squeeze_` and the like change the tensor's shape, but no memory
            return
        written = tensors_in([self.args, self.kwargs, self.outputs])
        inference = any(tensor.is_inference() for tensor in written)
        # Inference tensors may only be written in inference mode. Otherwise the mode stays as it is:
        # `inference_mode(False)` would turn gradients on.
        with torch.inference_mode() if inference else contextlib.nullcontext():
            if self.draw is None:
                results = self.call()
            else:
                seed, offset = starts[self.draw.source]
                results = draw(seed, offset + self.draw.offset, self.call)
            for recorded, new in zip(self.outputs, tensors_in(results), strict=False):
                if recorded.is_nested:  # nested tensors are already unknown effects: see dispatch_mode.py
                    continue
                if recorded.layout == torch.strided and recorded.data_ptr() == new.data_ptr():
                    continue
                if recorded.shape != new.shape:
                    was, now = recorded.shape, new.shape
                    raise RuntimeError(f"a replayed operation changed its output's shape: {was} to {now}")
                recorded.copy_(new)


@dataclass(frozen=True, slots=True)
class Placed:
    """A node in the order of streams and events: the node runs after the first `seen[lane]` nodes of each lane."""

    node: Node
    lane: Lane
    number: int
    "The number of the node among those of its lane, from 1."
    seen: Mapping[Lane, int]

    def is_before(self, later: Placed) -> bool:
        """Return whether every replay runs this node before `later`, which was recorded after it."""
        return later.seen.get(self.lane, 0) >= self.number
