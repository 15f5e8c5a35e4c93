"""The one exception that a user's mistake becomes."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RequestError(Exception):
    """What was asked for is wrong: no such file, an unknown key, a malformed rule. One line; the exit code is 2."""


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean "hot-paths"?)`, or nothing where no known word is near."""
    matches = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f' (did you mean "{matches[0]}"?)' if matches else ""
