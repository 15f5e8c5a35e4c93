"""Compares the order of replays in the ranks of a program."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from graphsafe.report.model import Limit, grouped
from graphsafe.report.text import listed
from graphsafe.run.parent.seen import SeenGraph, SeenProcess, last
from graphsafe.run.parent.writer import Writer, named

Run = tuple[int, int]
"The index of a graph in its process, and the number of its successive replays."


@dataclass(frozen=True, slots=True)
class Parting:
    """The first replay at which two ranks replay different graphs."""

    replay: int
    "The number of the replay, from 1."
    processes: tuple[SeenProcess, SeenProcess]
    graphs: tuple[SeenGraph, SeenGraph]
    collective: bool
    "Whether the comparison left out graphs that contain no collective in either of the two ranks."

    @property
    def text(self) -> str:
        """The replays of both ranks in words: `rank 0 replays graph 2 of a.py:10 (batch = 4), rank 1 graph 1 of
        a.py:10`. The values in parentheses are the frozen arguments in which the two graphs differ."""
        keys = [graph.facts.key for graph in self.graphs]
        texts = []
        for graph in self.graphs:
            key = graph.facts.key
            told = [f"{name} = {value}" for name, value in key.items() if len({each.get(name) for each in keys}) > 1]
            texts.append(f"{named(graph)} ({', '.join(told)})" if told else named(graph))
        return f"rank {self.processes[0].facts.rank} replays {texts[0]}, rank {self.processes[1].facts.rank} {texts[1]}"


def partings(seen: Iterable[SeenProcess]) -> tuple[list[Parting], list[Limit]]:
    """Compare the order of replays in the ranks that one process has started.

    Graphs with collectives are compared first. If their order is the same, all graphs are compared. If there are
    several differences, only the earliest one is returned. Ranks that captured different graphs, or that captured on
    several threads, are not compared; a limit says so.
    """
    known = [one for one in seen if one.facts.rank is not None and one.graphs]
    found, limits = [], []
    for ranks in grouped(known, lambda one: one.started_by).values():
        first, *others = sorted(ranks, key=lambda process: process.facts.rank or 0)
        parted = []
        for other in others:
            reason = _incomparable(first, other)
            if reason is None:
                parted += [one for one in (_parting(first, other, True), _parting(first, other, False)) if one]
            if reason is None and not (first.order.is_whole and other.order.is_whole):
                reason = "graphs took turns too often to record all replays; only the first ones are compared"
            if reason is not None:
                limits.append(Limit("ranks", order_of(first, other), reason))
        found += sorted(parted, key=lambda one: (not one.collective, one.replay))[:1]
    return found, limits


def parted_ranks(writer: Writer, parting: Parting) -> None:
    """Add a finding for two ranks that replay different graphs, if one of the graphs contains a collective.

    A rank then waits forever for another rank, or receives the values of another collective. Without a collective,
    or with groups of only some ranks, the difference may be intended, so it becomes a limit.
    """
    graph = parting.graphs[1]
    frame = last(graph.facts.frames)
    if not parting.collective or any(one.facts.subgroups for one in parting.graphs):
        why = f"at replay {parting.replay} {parting.text}"
        writer.limits.append(Limit("ranks", order_of(*parting.processes), why))
        return
    ranks = {
        str(process.facts.rank): named(one) for process, one in zip(parting.processes, parting.graphs, strict=True)
    }
    data = {"replay": parting.replay, "ranks": ranks}
    counted = f"At replay {parting.replay} of graphs with collectives {parting.text}."
    orders = f"replay graphs with collectives in different orders, first at replay {parting.replay}"
    text = {
        "message": f"{listed(f'rank {rank}' for rank in ranks)} {orders}",
        "fix": "replay them in the same order in every rank",
    }
    writer.about(graph, "GS614", frame, {}, data, because=counted, text=text)


def order_of(first: SeenProcess, other: SeenProcess) -> str:
    return f"the order of replays in ranks {first.facts.rank} and {other.facts.rank}"


def _incomparable(first: SeenProcess, other: SeenProcess) -> str | None:
    if first.facts.rank == other.facts.rank:
        return "a rank was started again"
    for process in (first, other):
        if len({graph.facts.thread for graph in process.graphs}) > 1:
            return f"rank {process.facts.rank} captured on several threads, between which there is no order"
    for one, two in zip(first.graphs, other.graphs, strict=False):
        if one.facts.frames[-1:] != two.facts.frames[-1:]:
            return f"they captured different graphs: {named(one)} and {named(two)}"
    if len(first.graphs) != len(other.graphs):
        return f"they captured different numbers of graphs: {len(first.graphs)} and {len(other.graphs)}"
    return None


def _parting(first: SeenProcess, other: SeenProcess, collective: bool) -> Parting | None:
    pairs = enumerate(zip(first.graphs, other.graphs, strict=True))
    counted = {at for at, pair in pairs if not collective or any(graph.facts.collectives for graph in pair)}
    found = first_difference(_runs(first, counted), _runs(other, counted))
    if found is None:
        return None
    replay, one, two = found
    return Parting(replay, (first, other), (first.graphs[one], other.graphs[two]), collective)


def _runs(process: SeenProcess, counted: Collection[int]) -> list[Run]:
    places = {graph.facts.number: place for place, graph in enumerate(process.graphs)}
    return [(places[number], times) for number, times in process.order.runs if places.get(number) in counted]


def first_difference(one: Sequence[Run], other: Sequence[Run]) -> tuple[int, int, int] | None:
    """Return the number of the first replay that differs (counted from 1), and the two graphs that are replayed there.

    If one order is the beginning of the other, this counts as no difference, because the program may have ended while
    one rank was ahead.
    """
    rest = [(run for run in runs if run[1]) for runs in (one, other)]
    mine, theirs = next(rest[0], None), next(rest[1], None)
    done = 0
    while mine is not None and theirs is not None:
        if mine[0] != theirs[0]:
            return done + 1, mine[0], theirs[0]
        times = min(mine[1], theirs[1])
        done += times
        mine = (mine[0], mine[1] - times) if mine[1] > times else next(rest[0], None)
        theirs = (theirs[0], theirs[1] - times) if theirs[1] > times else next(rest[1], None)
    return None
