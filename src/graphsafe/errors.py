"""The exception for mistakes of the user."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from operator import eq

_MOST_ALIKE = 50


class RequestError(Exception):
    """Raised if the request is wrong: no such file, an unknown key, an invalid rule.

    The message is one line, and the exit code is 2.
    """


def nearest(word: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return a hint such as ` (did you mean "hot-paths"?)`, or "" if no known word is similar."""
    matches = get_close_matches(word, list(known), n=_MOST_ALIKE, cutoff=cutoff)
    if not matches:
        return ""
    # If several words are equally similar, take the one with the fewest changed characters: GS101 for GS1O1, not GS711.
    best = max(matches, key=lambda one: (SequenceMatcher(None, one, word).ratio(), sum(map(eq, one, word))))
    return f' (did you mean "{best}"?)'
