"""The exception for a user's mistake."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RequestError(Exception):
    """The request is wrong: no such file, an unknown key, a malformed rule. The message is one line; the exit code is
    2."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint such as ` (did you mean "hot-paths"?)`, or nothing if no known word is similar."""
    matches = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f' (did you mean "{matches[0]}"?)' if matches else ""
