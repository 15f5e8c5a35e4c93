"""Which readings of functions there have been, and what came of them: nothing is read twice for the same arguments."""

from __future__ import annotations

from typing import Any, Final

MAX_DEPTH = 30
MAX_CONTEXTS = 16
"Different argument sets of one function; further ones get the join of what is known."


class Missing:
    pass


MISSING: Final = Missing()
"There is no answer yet: it has to be worked out."


class Memo:
    """`given` is what makes readings the same, in any form that has a hash; so is a result, but for None."""

    def __init__(self) -> None:
        self.active: set[str] = set()
        "Functions that are being read."
        self._results: dict[object, Any] = {}
        self._contexts: dict[tuple[str, bool, bool], int] = {}

    def result(self, given: object, hot: bool, guarded: bool) -> Any:
        """MISSING where there has been no such reading, None while it is going on. Raises TypeError without a hash."""
        known = self._results.get((given, hot, guarded), MISSING)
        if known is MISSING and (guarded or not hot):
            # Hot code that nothing guards shows all that the same code shows elsewhere, and more plainly.
            plain = self._results.get((given, True, False))
            known = MISSING if plain is None else plain
        return known

    def admits(self, ref: str, hot: bool, guarded: bool, depth: int) -> bool:
        """Whether there is to be another reading of a function."""
        seen = self._contexts.get((ref, hot, guarded), 0)
        return depth <= MAX_DEPTH and seen < MAX_CONTEXTS and (ref not in self.active or seen <= 2)

    def begin(self, ref: str, hot: bool, guarded: bool, given: object) -> None:
        """`given` None: it has no hash, and counts all the same."""
        self._contexts[ref, hot, guarded] = self._contexts.get((ref, hot, guarded), 0) + 1
        if given is not None:
            self._results[given, hot, guarded] = None

    def end(self, hot: bool, guarded: bool, given: object, result: object) -> None:
        if given is not None:
            self._results[given, hot, guarded] = result
