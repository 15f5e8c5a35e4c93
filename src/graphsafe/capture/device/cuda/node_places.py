"""Finds the user's line that launched each node of a capture, by counting the nodes around every operation.

A dispatch mode watches the operations, so the capture is not a plain one. The places explain differences; the recording
is never compared itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from graphsafe.capture.device.cuda.nodes import Place, count_in_capture
from graphsafe.capture.device.cuda.trace import Running, traced
from graphsafe.capture.shared.frames import user_frames


class NodePlaces:
    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.places: list[Place | None] = []
        self._stream = stream
        self._running = Running(lambda event: None)
        self._running.before_op = self._before
        self._running.after_op = self._after

    def watch(self, step: Callable[[], Any]) -> Any:
        with traced(self._running):
            outputs = step()
        self._fill(None)
        return outputs

    def _before(self, name: str, args: Sequence[Any]) -> None:
        # Nodes that no torch operation launched (a Triton kernel, an extension) have no known place.
        self._fill(None)

    def _after(self, name: str, args: Sequence[Any]) -> None:
        self._fill((*user_frames(), name))

    def _fill(self, place: Place | None) -> None:
        new = count_in_capture(self._stream) - len(self.places)
        self.places += [place] * new
