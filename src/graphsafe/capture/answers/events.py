"""Events of a step, a capture or a graph, with the user's lines. A device makes these events, and the parent reads
them."""

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
    """One action of an eager step that matters for a capture. `frames` are the user's frames, outermost first; the last
    one caused the event. `graphsafe.capture.shared.frames.user_frames()` makes `frames` and `span` from the live stack.
    """

    kind: StepEventKind
    op: str
    "The operation's aten name (`aten::_local_scalar_dense`), or its Python name (`torch.cuda.synchronize`)."
    frames: tuple[CallSite, ...]
    span: Span | None = None
    "The expression that the last frame was evaluating; `None` before Python 3.11."
    via: str | None = None
    """The outermost torch function that the user's code had called (`torch.Tensor.__bool__`, `torch.zeros`,
    `torch.Tensor.__getitem__`), spelled as in the op table."""
    nbytes: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    """Details that rules match. Copies have `pinned`, `non_blocking`, `literal` and `index`. Extents have `mask`, and
    random numbers have `how`. Some events have `dtype`."""
    called: str | None = None
    """The outermost function of torch that the user's line called and that is written in Python
    (`torch.amp.GradScaler.step`). The event happens inside this function."""

    def details(self) -> dict[str, Any]:
        """Return the details that are known, for a finding's data."""
        known = {key: value for key, value in self.data.items() if value is not None}
        return {**known, "op": self.op, "via": self.via} | ({} if self.nbytes is None else {"bytes": self.nbytes})


@dataclass(frozen=True, slots=True)
class CaptureFailure(Error):
    """The reason why a capture attempt failed: the first error of the exception chain, with the user's frames of that
    error."""

    event: StepEvent | None = None
    "The event that made the capture fail; None if the device needs a second attempt to find it."


@dataclass(frozen=True, slots=True)
class Asked:
    """A place where the user's code asked whether a capture is under way."""

    frames: tuple[CallSite, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The line that made a capture fail. From the capture itself, only the cause `operation` can be known. A second
    attempt, with instrumentation, can show each of the causes."""

    cause: Literal["operation", "unjoined-stream", "foreign-stream"]
    "`unjoined-stream` also stands for a stream that is joined but was never forked."
    event: StepEvent
