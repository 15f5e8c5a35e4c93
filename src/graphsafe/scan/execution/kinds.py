"""Limits the number of kinds of arguments for which one function is read, and the number of constructed objects that
are kept separate.

If each function calls the next one with several kinds of arguments, the number of combinations grows without bound. The
limit keeps the work of a scan proportional to the number of functions. Once the total number of kinds far exceeds the
usual total, no function is read for more than twenty kinds. In real projects, a function has about four kinds on
average, and some hundreds at most.
"""

from __future__ import annotations

from collections.abc import Hashable

MAX_KINDS = 20
"The largest number of kinds of arguments for one function, if the total over all functions exceeds the usual total."
MAX_EVER = 1000
"The largest number of kinds of arguments for one function, whatever the total is."
USUAL = 5000
USUAL_FOR_EACH = 20
"The usual total is USUAL plus this number for each function that is read."

MANY_KINDS = "called with too many kinds of arguments to follow each call"


class ArgumentKinds:
    """Counts the kinds of arguments for each function and each constructor."""

    def __init__(self) -> None:
        self._kinds: dict[str, set[Hashable]] = {}
        self.count = 0
        "The total number of kinds over all functions."

    def of(self, ref: str) -> int:
        """Return the number of kinds of one function."""
        return len(self._kinds.get(ref, ()))

    def has_room(self, ref: str, kind: Hashable) -> bool:
        """Return whether a function or constructor may be read for this kind of arguments. If so, record the kind."""
        known = self._kinds.setdefault(ref, set())
        try:
            if kind in known:
                return True
        except TypeError:  # some constant in the arguments has no hash
            return len(known) < MAX_KINDS
        if len(known) >= MAX_EVER or (
            len(known) >= MAX_KINDS and self.count > USUAL + USUAL_FOR_EACH * len(self._kinds)
        ):
            return False
        known.add(kind)
        self.count += 1
        return True
