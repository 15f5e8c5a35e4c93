"""The budget of calls. If the scan is about only a few files of a large project, not all calls are followed.

If each function calls the next one with several kinds of arguments, the number of combinations grows without bound. So
the number of kinds of arguments for one function is limited, and so is the number of constructed objects that are kept
separate. This keeps the work of a scan proportional to the number of functions. Once the total number of kinds far
exceeds the usual total, no function is read for more than twenty kinds. In real projects, a function has about four
kinds on average, and some hundreds at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from graphsafe.scan.symbols.project import Project

MAX_COLD = 2
"""The largest number of levels to which calls of constructors and other cold code (code outside the steps) are
followed. Deeper code gives little information about attributes."""
MAX_COMPOSING = 6
"The largest number of levels for code that assembles the objects of a step."
MAX_OUT_OF_SCOPE = {True: 3, False: 1}
"The largest number of nested calls that are followed outside the scope, from hot code (True) and cold code (False)."
MAX_OUT_OF_SCOPE_LATE = {True: 1, False: 0}
"The same numbers for the last quarter of the budget."
READINGS = 100
READINGS_FOR_EACH = 3
"A function may be read at most READINGS times, plus this number of times for each kind of its arguments."
BYTES_PER_READING = 4000
"Indexing this many bytes of other files takes as long as reading one function."
MAX_KINDS = 20
"The largest number of kinds of arguments for one function, if the total over all functions exceeds the usual total."
MAX_EVER = 1000
"The largest number of kinds of arguments for one function, whatever the total is."
USUAL = 5000
USUAL_FOR_EACH = 20
"The usual total is USUAL plus this number for each function that is read."

MANY_KINDS = "called with too many kinds of arguments to follow each call"


@dataclass(frozen=True, slots=True)
class Scope:
    """The files that are read if the scan is about only a few files of a large project."""

    paths: frozenset[str]
    "The files that the scan is about, the nearest files whose roots lead to these files, and the files in between."
    readings: int
    "The number of functions that may be read."


class CallBudget:
    """Decides whether a call is followed, and counts the functions that are read."""

    def __init__(self, project: Project, scope: Scope | None) -> None:
        self._readings = 0
        self._readings_of: Counter[str] = Counter()
        "Function -> the number of times that it has been read."
        self._kinds: dict[str, set[Hashable]] = {}
        "Function or constructor -> the kinds of arguments for which it is read."
        self._kind_count = 0
        self._scope = scope
        self._project = project

    def holds(self, ref: str) -> bool:
        """Return whether a file, or a function's file, is in scope. Calls of functions that are out of scope are
        followed only for their results."""
        return self._scope is None or ref.partition("::")[0] in self._scope.paths

    def note_reading(self, ref: str) -> None:
        """Count one reading of a function."""
        self._readings += 1
        self._readings_of[ref] += 1

    def has_readings_left(self, ref: str) -> bool:
        """Return whether a function may be read once more.

        Functions that all call one another would otherwise be read once for each pair of them. In real projects, nearly
        every function is read once for each kind of its arguments.
        """
        return self._readings_of[ref] < READINGS + READINGS_FOR_EACH * len(self._kinds.get(ref, ()))

    def has_room_for(self, ref: str, kind: Hashable) -> bool:
        """Return whether a function or constructor may be read for this kind of arguments. If so, record the kind."""
        known = self._kinds.setdefault(ref, set())
        try:
            if kind in known:
                return True
        except TypeError:  # some constant in the arguments has no hash
            return len(known) < MAX_KINDS
        if len(known) >= MAX_EVER or (
            len(known) >= MAX_KINDS and self._kind_count > USUAL + USUAL_FOR_EACH * len(self._kinds)
        ):
            return False
        known.add(kind)
        self._kind_count += 1
        return True

    def is_spent(self) -> bool:
        """Return whether the budget is used up. If so, no further call is followed."""
        return self._scope is not None and self._read() >= self._scope.readings

    def _read(self) -> int:
        """Return the work done so far, in functions and bytes. Time is left out, because the report must be the same on
        every machine."""
        return self._readings + self._project.asked_bytes // BYTES_PER_READING

    def out_of_scope(self, ref: str, hot: bool, depth: int, caller: int, composes: bool = False) -> int | None:
        """Return the number of calls between the scope and a function, or None if the function is too far away to be
        read.

        `caller` is the same number for the calling function. `depth` is the number of nested calls of cold code at the
        caller.
        """
        if not hot and depth >= (MAX_COMPOSING if composes else MAX_COLD):
            return None
        if self._scope is None:
            return 0
        if self.is_spent():
            return None
        out_of_scope = 0 if self.holds(ref) else caller + 1
        most = MAX_OUT_OF_SCOPE_LATE if self._read() >= self._scope.readings * 3 // 4 else MAX_OUT_OF_SCOPE
        return out_of_scope if out_of_scope <= most[hot] else None
