"""The operations that a capture records, and their order by streams and events."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from graphsafe.capture.device.sim.effects import NodeKind
from graphsafe.capture.device.sim.generators import Generator, draw
from graphsafe.capture.device.sim.perform import perform
from graphsafe.capture.device.structures import tensors_in
from graphsafe.report.model import CallSite, Span

__tracebackhide__ = True  # pytest reads this: the traceback of a failure ends at the user's line

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class SimStream:
    """A stream of a device. Several `torch.cuda.Stream` objects may share one."""

    device_index: int
    number: int = field(default_factory=lambda: next(_numbers))
    "Zero for the device's default stream."
    priority: int = field(default=0, compare=False)
    foreign: bool = field(default=False, compare=False)
    "Whether another library made the stream. Such a library may use the stream at any time."

    @property
    def key(self) -> tuple[int, int]:
        return self.device_index, self.number


@dataclass(frozen=True, slots=True)
class Draw:
    generator: Generator
    offset: int
    "The offset of the draw, relative to the generator's offset at the start of the graph."


@dataclass(frozen=True, slots=True)
class Node:
    """An operation of a capture, with its place in the order of streams and events. The node runs after the first
    `seen[sim_stream]` nodes of each stream."""

    sim_stream: SimStream
    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    """The arguments, fixed at the capture. Numbers have the values that they had at the capture. Tensors are aliases,
    which keep the addresses. An unpinned host tensor is a copy, because a kernel is given its value."""
    outputs: tuple[torch.Tensor, ...]
    "Detached aliases of the tensors that the operation returned at the capture. A replay writes into these tensors."
    op: str
    kind: NodeKind
    draw: Draw | None
    frames: tuple[CallSite, ...]
    span: Span | None
    written: tuple[torch.Tensor, ...] = ()
    "Detached aliases of the arguments that the operation writes."
    recorded: bool = False
    "Whether autograd recorded the operation."
    backward: bool = False
    "Whether a backward pass ran the operation."
    number: int = 0
    "The position of the node among the nodes of its stream, counted from 1."
    seen: Mapping[SimStream, int] = field(default_factory=dict)

    def is_before(self, later: Node) -> bool:
        """Return whether every replay runs this node before `later`. `later` was recorded after this node."""
        return later.seen.get(self.sim_stream, 0) >= self.number

    def arguments(self) -> tuple[torch.Tensor, ...]:
        """Return the tensors that the operation reads and writes."""
        return *tensors_in([self.args, dict(self.kwargs)]), *self.written

    def call(self) -> Any:
        if not self.recorded:
            return perform(self.func, self.args, self.kwargs)
        # Some operations also ask whether gradients are on: the CPU's LSTM keeps a workspace for the backward pass only
        # then. Autograd itself records no replay.
        with torch._C._AutoDispatchBelowAutograd(), torch.enable_grad():
            return perform(self.func, self.args, self.kwargs)

    def run(self, starts: Mapping[Generator, tuple[int, int]]) -> None:
        """Run the node. `starts` has the seed and the offset of each generator at the start of this replay."""
        # `squeeze_` and similar operations change the tensor's shape, but no memory
        if torch.Tag.inplace_view in self.func.tags:
            return
        written = tensors_in([self.args, self.kwargs, self.outputs])
        inference = any(tensor.is_inference() for tensor in written)
        # Inference tensors may be written only in inference mode. For other tensors the mode is left as it is, because
        # `inference_mode(False)` would turn gradients on.
        with torch.inference_mode() if inference else contextlib.nullcontext():
            if self.draw is None:
                results = self.call()
            else:
                seed, offset = starts[self.draw.generator]
                results = draw(seed, offset + self.draw.offset, self.call)
            for recorded, new in zip(self.outputs, tensors_in(results), strict=False):
                # operations on nested tensors are already reported as unknown effects: see dispatch_mode.py
                if recorded.is_nested:
                    continue
                if recorded.layout == torch.strided and recorded.data_ptr() == new.data_ptr():
                    continue
                if recorded.shape != new.shape:
                    was, now = recorded.shape, new.shape
                    raise RuntimeError(f"a replayed operation changed its output's shape: {was} to {now}")
                recorded.copy_(new)
