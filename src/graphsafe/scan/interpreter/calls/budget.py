"""How far calls are followed: wherever they lead, unless only a few files of a large project are to be judged."""

from __future__ import annotations

from dataclasses import dataclass

from graphsafe.scan.interpreter.call_frame import Frame
from graphsafe.scan.symbols.project import Project

MAX_COLD = 2
"How deep calls of constructors and other cold code are followed: what lies deeper says little of attributes."
MAX_OUT_OF_SCOPE = {True: 3, False: 1}
"How many calls are followed out of the scope, from hot and from cold code."
MAX_OUT_OF_SCOPE_LATE = {True: 1, False: 0}
"The same when three quarters of the budget are spent."
BYTES_PER_READING = 4000
"Bytes of other files whose index costs as much as reading a function."


@dataclass(frozen=True, slots=True)
class Scope:
    """What is read where only a few files of a large project are to be judged."""

    paths: frozenset[str]
    "These files, the nearest ones whose roots lead to them, and the files between."
    readings: int
    "How many functions may be read."


class CallBudget:
    def __init__(self, project: Project, scope: Scope | None) -> None:
        self.readings = 0
        "How many functions have been read."
        self._scope = scope
        self._project = project

    def holds(self, ref: str) -> bool:
        """Whether a file, or the file of a function, is in scope; calls elsewhere are followed for values alone."""
        return self._scope is None or ref.partition("::")[0] in self._scope.paths

    def is_spent(self) -> bool:
        """Whether so much has been read that no further call is followed."""
        return self._scope is not None and self._read() >= self._scope.readings

    def _read(self) -> int:
        """Counted in functions and bytes, not in time, so that the report is the same on every machine."""
        return self.readings + self._project.asked_bytes // BYTES_PER_READING

    def out_of_scope(self, frame: Frame, ref: str) -> int | None:
        """How many calls lie between the scope and a function; None where these are too many to read it."""
        if not frame.hot and frame.depth >= MAX_COLD:
            return None
        if self._scope is None:
            return 0
        if self.is_spent():
            return None
        out_of_scope = 0 if self.holds(ref) else frame.out_of_scope + 1
        most = MAX_OUT_OF_SCOPE_LATE if self._read() >= self._scope.readings * 3 // 4 else MAX_OUT_OF_SCOPE
        return out_of_scope if out_of_scope <= most[frame.hot] else None
