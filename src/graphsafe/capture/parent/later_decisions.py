"""Chooses the line to blame if Python makes another decision in a later step than at capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsafe.capture.answers.probes import HostCall
from graphsafe.capture.parent.finding_table import Key
from graphsafe.capture.shared.places import path_of
from graphsafe.files import from_here
from graphsafe.report.model import CallSite, Finding, Span
from graphsafe.report.probes.horizon import Departure
from graphsafe.report.probes.state import Change

_OF_HOST_MEMORY = ("other inputs on the host", "other values in host memory")
_MAY_DECIDE = ("host", "grows", "opaque")
"The kinds of changing host state on which Python's decisions may depend."
_DECIDES = ("GS101", "GS102", "GS201", "GS202", "GS203")
"Codes for those reads of the device that may affect Python's decisions, or the sizes of later operations."


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """The line to blame. `frames` is empty unless there is a single possible cause."""

    code: str
    frames: Sequence[CallSite]
    span: Span | None
    expr: str | None
    data: Mapping[str, Any]

    @property
    def how(self) -> str | None:
        """`departed` if the line is not a cause but only the place where a later step differs, else None. The value
        selects the rule's message."""
        return None if self.frames or self.expr else "departed"

    def is_reported(self, frames: Sequence[CallSite], found: Mapping[Key, Finding]) -> bool:
        """Return whether other findings already name the cause. Such a cause is a line that makes state grow, or a
        decision that depends on a value of the device."""
        if self.code == "GS402":
            return (self.code, from_here(frames[-1].path), frames[-1].line) in found
        known = self.frames or self.data.get("among") or self.data.get("attribute")
        if known or self.data["departure"]["under"] != "further steps":
            return False
        return any(one.code in _DECIDES and one.level == "error" for one in found.values())


def blamed_for(departure: Departure, host_calls: Sequence[HostCall], changed: Sequence[Change]) -> BlamedLine:
    """Choose the line to blame among the host calls and the changes of state that the step probe saw."""
    says = {key: getattr(departure, key) for key in ("step", "under", "what", "before", "after")}
    if departure.under in _OF_HOST_MEMORY:
        return BlamedLine("GS702", (), departure.span, None, {"departure": says})
    by_clock = departure.under != "further steps"
    wanted = "clock" if by_clock else "random"
    calls = [call for call in host_calls if call.kind == wanted]
    changes = [one for one in changed if one.how in _MAY_DECIDE and one.frames]
    if len(calls) == 1 and (by_clock or not changes):
        call = calls[0]
        code = "GS702" if by_clock else "GS504"
        return BlamedLine(code, call.frames, call.span, None, {"departure": says, "call": call.function})
    if len(changes) == 1 and not calls:
        change = changes[0]
        code = "GS402" if change.how == "grows" else "GS702"
        return BlamedLine(code, change.frames, None, change.name, {"departure": says, "attribute": change.name})
    path = rebound_by(departure)
    if path is not None and not calls and not changes:
        return BlamedLine("GS703", (), departure.span, path, {"departure": says, "attribute": path})
    among = [*(call.function for call in calls), *(change.name for change in changes)]
    return BlamedLine("GS702", (), departure.span, None, {"departure": says, "among": among})


def rebound_by(departure: Departure) -> str | None:
    """Return the path of a tensor that was replaced. A later step then reads another tensor. Return None for a view at
    another offset of the same tensor, because then only a Python number has changed."""
    if departure.what != "memory":
        return None
    before, after = path_of(departure.before), path_of(departure.after)
    return before if before != after else None
