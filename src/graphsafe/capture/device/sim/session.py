"""A capture that is under way.

Its result, a graph (`graphs.py`), holds operations with fixed storages and fixed Python values. A GPU runs nothing
during a capture. The simulated device runs the operations, because the code needs their shapes. When the capture ends,
the device restores the memory that the operations wrote and that existed before the capture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.device.sim.legality import EARLIER_ERROR, Refusal
from graphsafe.capture.device.sim.nodes import Node, SimStream
from graphsafe.capture.device.sim.reuse import Reuse
from graphsafe.capture.device.sim.tags import storages, tag_of
from graphsafe.capture.device.structures import is_valueless
from graphsafe.capture.shared.frames import user_frames

__tracebackhide__ = True  # pytest reads this: the traceback of a failure ends at the user's line


class Session:
    """A capture that is under way."""

    def __init__(self, origin: SimStream) -> None:
        self.origin = origin
        self.clocks: dict[SimStream, dict[SimStream, int]] = {origin: {origin: 0}}
        self.nodes: list[Node] = []
        self.escaped: list[StepEvent] = []
        "The work that this process launched during the capture and that is not in the graph."
        self.first_error: Refusal | None = None
        self.first_event: StepEvent | None = None
        self.last_work: dict[SimStream, StepEvent] = {}
        self.saved: dict[int, tuple[Any, Any]] = {}
        self.reuse = Reuse()
        self.doubts: list[str] = []
        "Work with unknown effects that was captured before the first step."
        self.frames, self.span = user_frames()

    def refuse(self, refusal: Refusal, event: StepEvent) -> None:
        """Raise `refusal`. The first refusal is kept, with its event."""
        if self.first_error is not None and refusal.invalidates:
            raise EARLIER_ERROR.error()
        self.first_event = self.first_event or event
        if refusal.invalidates:
            self.first_error = refusal
        raise refusal.error()

    def admit(self) -> None:
        """Raise if an earlier error has invalidated the capture."""
        if self.first_error is not None:
            raise EARLIER_ERROR.error()

    def join(self, sim_stream: SimStream, clock: Mapping[SimStream, int]) -> None:
        self.admit()
        own = self.clocks.setdefault(sim_stream, {sim_stream: 0})
        for other, count in clock.items():
            own[other] = max(own.get(other, 0), count)

    def escape(self, sim_stream: SimStream, work: StepEvent) -> None:
        self.escaped.append(work)
        if sim_stream.number != 0:
            self.last_work[sim_stream] = work

    def add(self, node: Node) -> None:
        """Add a node, which gets its place in the order here."""
        sim_stream = node.sim_stream
        if sim_stream != self.origin:
            self.last_work[sim_stream] = StepEvent("hidden-sync", node.op, node.frames, node.span)
        clock = self.clocks[sim_stream]
        self.nodes.append(replace(node, number=clock[sim_stream] + 1, seen=dict(clock)))
        self.reuse.add(self.nodes[-1])
        clock[sim_stream] += 1

    def save(self, tensor: torch.Tensor) -> None:
        """Save the values of memory that existed before the capture and that the capture is about to write."""
        tag = tag_of(tensor)
        if (tag is not None and tag.session is self) or is_valueless(tensor):
            return
        for storage in storages(tensor):
            if storage._cdata not in self.saved:
                self.saved[storage._cdata] = (storage, storage.clone())

    def restore(self) -> None:
        for storage, values in self.saved.values():
            if storage.nbytes() == values.nbytes():
                storage.copy_(values)
        self.saved.clear()

    def unjoined(self) -> StepEvent | None:
        """Return the last work of a stream that is not joined: the capture's first stream has not waited for this work.
        Return None if all streams are joined."""
        seen = self.clocks[self.origin]
        for sim_stream, clock in self.clocks.items():
            if clock[sim_stream] > seen.get(sim_stream, 0):
                return self.last_work.get(sim_stream)
        return None
