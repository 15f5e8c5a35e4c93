"""How far calls are followed: wherever they lead, unless only a few files of a large project are in question."""

from __future__ import annotations

from dataclasses import dataclass

from graphsafe.scan.interpreter.call_frame import Frame
from graphsafe.scan.symbols.project import Project

MAX_COLD = 2
"Calls that are followed from constructors and other cold code: what lies deeper says little of what attributes hold."
MAX_AWAY = {True: 3, False: 1}
"Calls that are followed from hot and from cold code out of the files in question, where only these few are."
MAX_LATE = {True: 1, False: 0}
"The same when three quarters have been read of what may be."
READING = 4000
"Bytes of other files whose index costs as much as reading a function."


@dataclass(frozen=True, slots=True)
class Vicinity:
    """What is read where only a few files of a large project are in question."""

    paths: frozenset[str]
    "These files, the nearest whose roots lead to them, and those on the ways."
    readings: int
    "Of functions, that may be made."


class Horizon:
    def __init__(self, project: Project, near: Vicinity | None) -> None:
        self.readings = 0
        "Made so far."
        self._near = near
        self._project = project

    def holds(self, ref: str) -> bool:
        """Whether a function's file, or a file, is near; calls out of others are followed for values alone."""
        return self._near is None or ref.partition("::")[0] in self._near.paths

    def is_reached(self) -> bool:
        """Whether so much has been read that no call is followed any more."""
        return self._near is not None and self._read() >= self._near.readings

    def _read(self) -> int:
        """Counted in what was read, not in time, so that the report is the same everywhere."""
        return self.readings + self._project.asked_bytes // READING

    def away(self, frame: Frame, ref: str) -> int | None:
        """How many calls lead to a function from the files in question; None where it lies too far to be read."""
        if not frame.hot and frame.depth >= MAX_COLD:
            return None
        if self._near is None:
            return 0
        if self.is_reached():
            return None
        away = 0 if self.holds(ref) else frame.away + 1
        most = MAX_LATE if self._read() >= self._near.readings * 3 // 4 else MAX_AWAY
        return away if away <= most[frame.hot] else None
