"""Limits the kinds of arguments for which functions are read, and constructed objects are distinguished.

If each function calls the next one with several kinds of arguments, the number of combinations would grow without
bound. The limit keeps the work of a scan in proportion to the functions that it reads: once there are far more readings
than usual, no function is read for more than twenty kinds. Real projects have about four kinds for each function, far
fewer than the limit.
"""

from __future__ import annotations

from collections.abc import Hashable

MAX_KINDS = 20
"The largest number of kinds of one function, once the total is above usual."
USUAL = 5000
USUAL_FOR_EACH = 20
"The usual total of kinds is a fixed number plus this number for each function that is read."

MANY_KINDS = "called in too many ways to follow each"


class ArgumentKinds:
    def __init__(self) -> None:
        self._kinds: dict[str, set[Hashable]] = {}
        self._count = 0

    def has_room(self, ref: str, kind: Hashable) -> bool:
        """Return whether a function or constructor may be read for this kind of arguments, and record the kind if
        so."""
        known = self._kinds.setdefault(ref, set())
        try:
            if kind in known:
                return True
        except TypeError:  # a constant has no hash
            return len(known) < MAX_KINDS
        if len(known) >= MAX_KINDS and self._count > USUAL + USUAL_FOR_EACH * len(self._kinds):
            return False
        known.add(kind)
        self._count += 1
        return True
