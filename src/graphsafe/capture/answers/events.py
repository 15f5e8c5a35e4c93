"""Events of a step, a capture or a graph with the user's lines: made by a device, read by the parent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.probe import Error

StepEventKind = Literal[
    "read", "wait", "query", "copy-to-host", "copy-to-device", "extent", "allocation", "random", "hidden-sync"
]


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One noteworthy action of an eager step, with the user's frames, outermost first; the last frame is to blame.
    `graphsafe.capture.shared.frames.user_frames()` makes `frames` and `span` from the live stack."""

    kind: StepEventKind
    op: str
    "An aten name (`aten::_local_scalar_dense`) or a Python one (`torch.cuda.synchronize`)."
    frames: tuple[CallSite, ...]
    span: Span | None = None
    "The expression that the last frame was running; `None` before Python 3.11."
    via: str | None = None
    """The outermost Python-level torch call around the event (`torch.Tensor.__bool__`, `torch.zeros`,
    `torch.Tensor.__getitem__`), as the op table spells it."""
    nbytes: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    """Details that distinguish rules: for copies `pinned`, `non_blocking`, `literal` and `index`; for extents `mask`;
    `dtype`; for random numbers `how`."""

    def details(self) -> dict[str, Any]:
        """Return the known details, for the data of a finding."""
        known = {key: value for key, value in self.data.items() if value is not None}
        return {**known, "op": self.op, "via": self.via} | ({} if self.nbytes is None else {"bytes": self.nbytes})


@dataclass(frozen=True, slots=True)
class CaptureFailure(Error):
    """Why a capture attempt failed: the first error of the exception chain, with the user's frames of that error."""

    event: StepEvent | None = None
    "The event at the guilty line; None if the device needs a second attempt to find it."


@dataclass(frozen=True, slots=True)
class Asked:
    """A place where the user's code asked whether a capture is under way."""

    frames: tuple[CallSite, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The guilty line of a failed capture, found by an instrumented second attempt."""

    cause: Literal["operation", "unjoined-stream", "foreign-stream"]
    event: StepEvent
