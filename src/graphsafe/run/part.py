"""A process's part of the ledger, in the folder of the run. It is written to a new file and renamed, so that nobody
reads an incomplete file."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graphsafe.files import saved, write_atomically
from graphsafe.run.counters import Count, Order, saved_counts

FOLDER, PARENT, OPTIONS = "GRAPHSAFE_RUN", "GRAPHSAFE_RUN_PARENT", "GRAPHSAFE_RUN_OPTIONS"
"Environment variables: the run's folder, the process that started this one, and the options of the watch."

_MOST = 1_000_000_000
"Size of the largest file that is read, in bytes. The program can also write to the folder."

POOL = "temporary memory of one pool"
"The name of memory that two graphs of a pool write at the same time."
Facts = dict[str, Any]
"JSON values as in a part, or dataclasses that are written as such values."


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run."""

    devices: tuple[str, ...] = ("cuda",)
    "The requested devices; either all are GPUs, or all are simulated."
    waits: bool = False
    stacks: bool = False

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def parse(text: str) -> Options:
        said = json.loads(text)
        return Options(**{**said, "devices": tuple(said.get("devices", ("cuda",)))})

    @property
    def is_simulated(self) -> bool:
        return self.devices[0].startswith("sim")

    @property
    def indices(self) -> tuple[int, ...]:
        """Return the numbers of the devices that are named by number."""
        return tuple(int(device.partition(":")[2]) for device in self.devices if ":" in device)

    @property
    def only(self) -> frozenset[str]:
        """Return the devices whose graphs are wanted; empty means all."""
        return frozenset(self.devices) if len(self.indices) == len(self.devices) else frozenset()


@dataclass(frozen=True, slots=True)
class Part:
    token: str
    "The identity of the process: its pid and a random number, since the system may reuse the pid."
    parent: str
    started: int
    "The start in nanoseconds since 1970."
    facts: Mapping[str, Any] | None
    """The facts of `Watch.write`; only `fault` if the process could not be watched; None if the process has not
    imported torch."""
    counts: Sequence[Count]
    order: Order
    outlives: bool = False
    "Whether the process was still running when the program had ended."


def write_part(folder: Path, token: str, facts: Mapping[str, Any]) -> None:
    """Write a part. Nothing is written if the run has ended or its disk is full, and the program goes on."""
    with contextlib.suppress(OSError):
        write_atomically(folder / f"{token}.json", json.dumps(facts, default=asdict))


def as_read(facts: Mapping[str, Any]) -> Facts:
    """Return the facts of a process in the form that they have in its part of the ledger."""
    return _facts(json.dumps(facts, default=asdict).encode()) or {}


def note_start(folder: Path, token: str, parent: str) -> None:
    """Write that a process exists. `entry/sitecustomize.py` does the same for processes that Python starts."""
    with contextlib.suppress(OSError):
        (folder / f"{token}.start").write_text(parent, encoding="utf-8")


def counters_file(folder: Path, token: str) -> Path:
    return folder / f"{token}.counts"


def read_parts(folder: Path) -> list[Part]:
    """Return the parts of all processes, in the order in which they started."""
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


def _facts(text: bytes | None) -> Facts | None:
    """Return what a process wrote; None if it wrote nothing or the file is not a process's part."""
    with contextlib.suppress(ValueError):
        facts = json.loads(text or b"null")
        return facts if isinstance(facts, dict) else None
    return None


def graphs_of(facts: Mapping[str, Any] | None) -> int:
    """Return how many graphs of the counters file are in use."""
    return max((graph["number"] + 1 for graph in facts.get("graphs", ())), default=0) if facts else 0
