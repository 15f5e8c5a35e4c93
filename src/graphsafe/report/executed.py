"""The lines that a captured step ran, and the share of a scan's hot lines among them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineRun:
    """Consecutive lines that were run."""

    first: int
    last: int

    def meets(self, first: int, last: int) -> bool:
        """Return whether this run contains any line from `first` to `last`."""
        return self.first <= last and first <= self.last


@dataclass(frozen=True, slots=True)
class ExecutedFile:
    """The lines of a file that steps ran."""

    path: str
    digest: str
    "The digest of the file's content when the step ran. After an edit, the line numbers may refer to other lines."
    lines: tuple[LineRun, ...]


@dataclass(frozen=True, slots=True)
class HotLines:
    """How many statements of hot code a step ran. Files that have changed since the step ran are left out."""

    all: int
    ran: int
    changed: tuple[str, ...]
    "The files that have changed since the step ran."

    def text(self) -> str:
        """Return the share in words."""
        known = "it is not known which hot lines ran"
        if self.all > 0:
            known = f"the step ran {self.ran} of {self.all} hot lines ({self.ran / self.all:.0%})"
        names = ", ".join(self.changed[:3]) + (f" and {len(self.changed) - 3} more" if len(self.changed) > 3 else "")
        return f"{known}; changed since the run: {names}" if self.changed else known


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def runs_of(numbers: Iterable[int]) -> tuple[LineRun, ...]:
    """Return line numbers as runs: 1, 2, 3, 7 become 1 to 3 and 7 to 7."""
    found: list[LineRun] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1].last + 1:
            found[-1] = LineRun(found[-1].first, number)
        else:
            found.append(LineRun(number, number))
    return tuple(found)
