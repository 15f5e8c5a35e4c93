"""Counts the replays of each graph, with the times of the first and the last: numbers in memory that is a file.

The operating system keeps such memory when the process dies, even by SIGKILL. A replay costs three stores.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

from graphsafe.files import saved

MOST_GRAPHS = 65_536
_WORDS = 3
_BYTES = MOST_GRAPHS * _WORDS * 8


@dataclass(frozen=True, slots=True)
class Count:
    replays: int
    first: int
    "Nanoseconds since 1970; 0 if there was no replay."
    last: int


class Counters:
    """`cells[slot]` counts replays; the next two cells hold the times of the first and the last one."""

    def __init__(self, file: Path | None = None) -> None:
        if file is None:
            self._memory = mmap.mmap(-1, _BYTES)
        else:
            with file.open("w+b") as opened:
                opened.truncate(_BYTES)
                self._memory = mmap.mmap(opened.fileno(), _BYTES)
        self.cells = memoryview(self._memory).cast("Q")

    def read(self, slot: int) -> Count:
        return Count(*self.cells[slot : slot + _WORDS])


def slot_of(number: int) -> int:
    """The first cell of the graph that was captured as the `number`th, from 0."""
    return number * _WORDS


def saved_counts(file: Path, graphs: int) -> list[Count]:
    """Read the counts that a process left; zeros if the file is missing, short or no file."""
    data = (saved(file, _BYTES) or b"")[: graphs * _WORDS * 8]
    words = memoryview(data.ljust(graphs * _WORDS * 8, b"\0")).cast("Q")
    return [Count(*words[slot_of(number) : slot_of(number) + _WORDS]) for number in range(graphs)]
