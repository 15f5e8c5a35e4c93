"""The launches, copies and waits of a step on the simulated device. The entries are in order but have no times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.shared.frames import running_line
from graphsafe.report.model import CallSite
from graphsafe.report.probes.timeline import Operation, OperationKind, Timeline

_OF_EVENTS: Mapping[str, OperationKind] = {
    "read": "wait",
    "wait": "wait",
    "extent": "wait",
    "hidden-sync": "wait",
    "query": "query",
    "copy-to-host": "copy",
    "copy-to-device": "copy",
}
_OF_LAUNCHES: Mapping[str, OperationKind] = {"graph": "graph-launch", "memcpy": "copy"}


class SequenceRecorder:
    """Collects what the device reports while a step runs."""

    def __init__(self) -> None:
        self._found: list[Operation] = []
        self._last: tuple[OperationKind, str] | None = None
        "The latest wait or copy that was reported. The launch of the same operation follows it."

    def record(self, event: StepEvent) -> None:
        """Record a wait or a copy."""
        kind = _OF_EVENTS.get(event.kind)
        if kind is not None:
            self._add(kind, event.op, event.frames[-1] if event.frames else None)
            self._last = kind, event.op

    def launched(self, kind: str, name: str) -> None:
        """Record a launch."""
        record, self._last = self._last, None
        does = _OF_LAUNCHES.get(kind, "launch")
        if record is None or record != (does, name):
            self._add(does, name, running_line())

    def _add(self, kind: OperationKind, name: str, site: CallSite | None) -> None:
        place = None if site is None else f"{site.path}:{site.line}"
        last = self._found[-1] if self._found else None
        if last is not None and (last.kind, last.place) == (kind, place) and kind != "wait":
            self._found[-1] = replace(last, count=last.count + 1)
        else:
            self._found.append(Operation("host", kind, name, place, None, None, None, None, False, 1))

    def timeline(self) -> Timeline:
        """Return everything that was recorded, in order."""
        return Timeline("pass", operations=tuple(self._found))
