"""Further eager steps: whether they still run the operations that a capture records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.probe import PLACE, Probe, later, unreported
from graphsafe.report.text import count

Under = Literal[
    "further steps",
    "clocks a day later",
    "rare random numbers on the host",
    "other inputs on the host",
    "other values in host memory",
]
"""The condition that was changed before the step.

For `further steps`, only the number of the step is different. Rare random numbers are the lowest and the highest that
the host's generators can draw. Host memory means memory to which the step itself writes.
"""
Aspect = Literal["operation", "count", "number", "shape", "memory"]
USUAL_STEPS = 256
"The number of further steps, if time allows. A report with fewer steps says so in its limits."


@dataclass(frozen=True, slots=True)
class Departure:
    """The first operation of a later step that differs from the captured step."""

    step: int
    "The number of the step. The captured step has the number 0."
    under: Under
    what: Aspect
    op: str
    before: str
    after: str
    place: str | None = field(default=None, kw_only=True, metadata=PLACE)
    frames: tuple[CallSite, ...] = unreported(())
    span: Span | None = unreported()
    path: str = unreported("")
    "A name for the whole sequence of operations, so that the same path can be found again in another process."


@dataclass(frozen=True, slots=True)
class Horizon(Probe):
    """`fail`: a later eager step runs other operations than the captured one, or runs them with other numbers, shapes
    or addresses of lasting tensors (tensors that live through all steps).

    The difference may also appear only after a change of the host's clocks, of an input on the host, or of host memory
    that the step writes, such as a pinned flag. `skipped`: no further step could be run. `crashed`: the process died in
    a further step.
    """

    steps: int | None = None
    "The number of further steps that ran the same operations."
    departure: Departure | None = None
    other_paths: int | None = later()
    """Further steps may take other paths than the captured one. This is the number of such paths that rounds of the
    target's refresh have tested. In these rounds, steps on these paths gave the same results as replays, so the paths
    do not make the probe fail."""
    paths: tuple[Departure, ...] = unreported(())
    "The first departure of each path that further steps took instead of the captured one, if rounds can test the path."
    last: Departure | None = unreported()
    "The departure after which no further steps ran."
    varying: tuple[int, ...] = unreported(())
    "Indices of operations whose numbers changed in early steps. These numbers are not part of a path's name."
    changing: tuple[str, ...] = unreported(())
    "State on the host that steps still change after the last of the further steps."
    is_cut: bool = unreported(False)
    "Whether there was no time to set the counters to all values at which Python may decide differently."
    files_read: tuple[str, ...] | None = later(())
    """Files that later steps read, and files whose existence every later step checks.

    Such files rule out `ready`: Python's decisions may depend on their contents, and capture cannot change the files.
    """

    def text(self) -> str:
        left = self.departure
        if left is None:
            if self.other_paths:
                return f"{count(self.other_paths, 'other path')} of further steps, with equal results in rounds"
            return f"unchanged for {count(self.steps, 'step')}" if self.steps else ""
        place = f" at {left.place}" if left.place else ""
        ahead = f"step {left.step} ahead"
        when = ahead if left.under == "further steps" else f"with {left.under}, a step"
        return f"{when} differs: {left.op}{place}, {left.before} then {left.after}"
