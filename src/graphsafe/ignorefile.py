"""Patterns of .gitignore files. Each is checked by itself, so that an invalid one does not disable the others."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_STARS = 4
"Of one pattern, without `**/`. Five take 15 seconds for a name of 200 letters, four take 0.4."
_STARS = re.compile(r"(?<!\\)\*+")
_RUN_IN_NAME = re.compile(r"(?<=[^/\\*])\*{2,}|(?<!\\)\*{2,}(?=[^/*])")
"`a**b`: inside a name, several stars say no more than one."


def read_patterns(lines: Sequence[str]) -> tuple[GitIgnoreSpec, list[tuple[int, str]]]:
    """The valid patterns, and for each invalid one its line (from 1) and what is wrong."""
    try:
        if not any(map(_has_too_many_stars, lines)):
            return _spec(lines), []
    except (ValueError, re.error):
        pass
    faults = [problem_of(line) for line in lines]
    good = [line for line, fault in zip(lines, faults, strict=True) if fault is None]
    return _spec(good), [(number, fault) for number, fault in enumerate(faults, start=1) if fault is not None]


def problem_of(pattern: str) -> str | None:
    """Why a pattern is not followed; None if it is valid, a comment, or blank."""
    if _has_too_many_stars(pattern):
        return f"a pattern of more than {MAX_STARS} stars is not followed: {pattern!r}"
    try:
        _spec([pattern])
    except (ValueError, re.error):
        return f"not a pattern: {pattern!r}"
    return None


def _has_too_many_stars(pattern: str) -> bool:
    if pattern.count("*") <= MAX_STARS or pattern.startswith("#"):
        return False
    return sum(len(_STARS.findall(name)) for name in pattern.split("/") if name != "**") > MAX_STARS


def _spec(lines: Iterable[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    with warnings.catch_warnings():
        # Of `[[:alpha:]]`, which `re` would read in another way some day.
        warnings.simplefilter("ignore", FutureWarning)
        return GitIgnoreSpec.from_lines(_RUN_IN_NAME.sub("*", line) if "**" in line else line for line in lines)
