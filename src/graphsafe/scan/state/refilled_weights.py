"""Finds new values for weights from which code has computed another tensor, such as a merged weight, that a graph
reads. If no code computes this tensor again, replays use the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from graphsafe.scan.domain.events import Event
from graphsafe.scan.domain.held import weights
from graphsafe.scan.domain.record import Place
from graphsafe.scan.domain.state_log import StateLog


@dataclass(frozen=True, slots=True)
class Derived:
    """An attribute that a method computes from other attributes of its object."""

    name: str
    sources: frozenset[str]
    method: str
    "The method, as `path::Class.method`."


class Graphs(Protocol):
    """The functions that graphs contain, and the functions around the graphs."""

    def is_held(self, ref: str, line: int | None = None) -> bool: ...
    def is_around(self, ref: str, line: int) -> bool: ...
    def captures_after(self, ref: str, line: int) -> bool: ...
    def recaptures(self, ref: str, line: int | None = None) -> bool: ...
    def derived_in(self, cls: str) -> Sequence[Derived]: ...
    def runs_around(self, ref: str) -> bool: ...


def events(log: StateLog, graphs: Graphs) -> Iterator[tuple[Place, Event]]:
    """Yield the refills whose old values a graph still uses through another attribute."""
    for refill in sorted(log.refills, key=repr):
        cls, _, name = refill.key.rpartition(".")
        line = refill.span[0]
        if not graphs.is_around(refill.ref, line) or graphs.is_held(refill.ref, line):
            continue
        for derived in graphs.derived_in(cls):
            is_source = name in derived.sources or refill.key == weights(cls)
            readers = log.readers.get(f"{cls}.{derived.name}", ())
            if (
                is_source
                and any(read.captured or graphs.is_held(read.ref) for read in readers)
                and refill.ref != derived.method
                and not graphs.runs_around(derived.method)
                and not graphs.captures_after(refill.ref, line)
                and not graphs.recaptures(refill.ref, line)
            ):
                words = {"expr": refill.text, "value": f"`{derived.name}`"}
                event = Event("AttrWrite", "source-refilled", refill.span, "likely", None, None, words)
                yield Place(refill.path, refill.function, event.span, event.kind, event.how), event
                break
