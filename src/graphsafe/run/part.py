"""The part of a run's ledger that one process writes into the folder of the run.

It is written to a new file, which is then renamed, so that an incomplete file is never read.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graphsafe.files import saved, write_atomically
from graphsafe.report.reading import members, read
from graphsafe.run.counters import Count, Order, saved_counts
from graphsafe.run.facts import ProcessFacts

FOLDER, PARENT, OPTIONS = "GRAPHSAFE_RUN", "GRAPHSAFE_RUN_PARENT", "GRAPHSAFE_RUN_OPTIONS"
"Environment variables: the run's folder, the process that started this one, and the options of the watch."

_MOST = 1_000_000_000
"""The size in bytes of the largest file that is read. A larger file is not a part: the program can also write to the
folder."""

POOL = "temporary memory of one pool"
"The name of memory that two graphs of a pool write at the same time."


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run."""

    devices: tuple[str, ...] = ("cuda",)
    "The requested devices. They are all GPUs or all simulated."
    waits: bool = False
    stacks: bool = False

    def text(self) -> str:
        return json.dumps(self, default=members)

    @staticmethod
    def parse(text: str) -> Options:
        return read(Options, json.loads(text))

    @property
    def is_simulated(self) -> bool:
        return self.devices[0].startswith("sim")

    @property
    def indices(self) -> tuple[int, ...]:
        """The numbers in the names of devices, such as 1 for `cuda:1`."""
        return tuple(int(device.partition(":")[2]) for device in self.devices if ":" in device)

    @property
    def only(self) -> frozenset[str]:
        """The devices whose graphs are recorded. An empty set means all devices."""
        return frozenset(self.devices) if len(self.indices) == len(self.devices) else frozenset()


@dataclass(frozen=True, slots=True)
class Part:
    token: str
    "The identity of the process: its pid and a random number, because the system may use the pid again."
    parent: str
    started: int
    "The time of its start in nanoseconds since 1970."
    facts: ProcessFacts | None
    "The facts that `Watch.write` has written, or None if the process has not imported torch."
    counts: Sequence[Count]
    order: Order
    outlives: bool = False
    "Whether the process was still running when the program had ended."


def write_part(folder: Path, token: str, facts: ProcessFacts) -> None:
    """Write a part. If the run has ended or the disk is full, nothing is written and no error is raised."""
    with contextlib.suppress(OSError):
        write_atomically(folder / f"{token}.json", json.dumps(facts, default=members))


def note_start(folder: Path, token: str, parent: str) -> None:
    """Record that a process has started. `entry/sitecustomize.py` does this for processes that Python starts."""
    with contextlib.suppress(OSError):
        (folder / f"{token}.start").write_text(parent, encoding="utf-8")


def counters_file(folder: Path, token: str) -> Path:
    return folder / f"{token}.counts"


def read_parts(folder: Path) -> list[Part]:
    """Return the parts of all processes, in the order of their start."""
    found = []
    for start in folder.glob("*.start"):
        parent = saved(start, _MOST)
        if parent is None:
            continue
        token = start.stem
        facts = _facts(saved(folder / f"{token}.json", _MOST))
        counted = saved_counts(counters_file(folder, token), graphs_of(facts))
        found.append(Part(token, parent.decode(errors="replace"), os.stat(start).st_mtime_ns, facts, *counted))
    return sorted(found, key=lambda part: (part.started, part.token))


def _facts(text: bytes | None) -> ProcessFacts | None:
    """Return the facts that a process wrote, or None if it wrote nothing or the file is not a part."""
    with contextlib.suppress(ValueError):
        facts = json.loads(text or b"null")
        return read(ProcessFacts, facts) if isinstance(facts, dict) else None
    return None


def graphs_of(facts: ProcessFacts | None) -> int:
    """Return the number of graphs that have counters in the counters file."""
    return max((graph.number + 1 for graph in facts.graphs), default=0) if facts else 0
