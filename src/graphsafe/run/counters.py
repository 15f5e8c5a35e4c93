"""Counts the replays of each graph in a memory-mapped file. Also records the times of each graph's first and last
replay, and the order of all replays.

The operating system keeps such memory when the process dies, even after SIGKILL, and a replay costs only a few stores.
The order is a list of runs. A run is a number of successive replays of one graph. For replays after the last run that
fits into the file, no order is recorded.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

from graphsafe.files import saved

MOST_GRAPHS = 65_536
MOST_RUNS = 65_536
_WORDS = 3
LAST_RUN = MOST_GRAPHS * _WORDS
"The cell with the position of the last run. A run has two cells: the slot of its graph and its number of replays."
_FIRST = LAST_RUN + 1
ROOM = _FIRST + 2 * MOST_RUNS
"The position of the last run that fits into the file."
NO_ROOM = ROOM + 2
_BYTES = (NO_ROOM + 2) * 8
_NOBODY = 2**64 - 1
"A slot number that no graph has."


@dataclass(frozen=True, slots=True)
class Count:
    replays: int
    first: int
    "The time of the first replay in nanoseconds since 1970, or 0."
    last: int


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a process's replays."""

    runs: tuple[tuple[int, int], ...] = ()
    "The runs. Each is the number of its graph and its number of successive replays."
    is_whole: bool = True
    "False if later replays did not fit into the file."


class Counters:
    """The counters of a process.

    `cells[slot]` is a graph's number of replays, and the next two cells are the times of its first and last replay.
    """

    def __init__(self, file: Path | None = None) -> None:
        if file is None:
            self._memory = mmap.mmap(-1, _BYTES)
        else:
            with file.open("w+b") as opened:
                opened.truncate(_BYTES)
                self._memory = mmap.mmap(opened.fileno(), _BYTES)
        self.cells = memoryview(self._memory).cast("Q")
        self.cells[LAST_RUN] = _FIRST
        self.cells[_FIRST] = self.cells[NO_ROOM] = _NOBODY


def slot_of(number: int) -> int:
    """Return the index of the first cell of a graph. `number` is the number of its capture, from 0."""
    return number * _WORDS


def saved_counts(file: Path, graphs: int) -> tuple[list[Count], Order]:
    """Read the counts and the order that a process has written. They are zeros if the file is missing, short or not
    regular."""
    return counts_in(memoryview((saved(file, _BYTES) or b"").ljust(_BYTES, b"\0")).cast("Q"), graphs)


def counts_in(cells: memoryview[int], graphs: int) -> tuple[list[Count], Order]:
    """Return the counts of the first `graphs` graphs, and the order of their replays. The order is empty if graphsafe
    did not write the file."""
    counts = [Count(*cells[slot_of(number) : slot_of(number) + _WORDS]) for number in range(graphs)]
    last = cells[LAST_RUN]
    runs = [tuple(cells[at : at + 2]) for at in range(_FIRST + 2, min(last, ROOM) + 1, 2)]
    known = all(slot < LAST_RUN for slot, _ in runs)
    return counts, Order(tuple((slot // _WORDS, count) for slot, count in runs) if known else (), last != NO_ROOM)
