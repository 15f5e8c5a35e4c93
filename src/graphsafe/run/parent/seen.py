"""The processes of a run, with stable names (`0.1`) and the facts that each process has recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphsafe.report.model import CallSite, grouped
from graphsafe.run.counters import Count, Order
from graphsafe.run.facts import GraphFacts, ProcessFacts
from graphsafe.run.part import Part


@dataclass(frozen=True, slots=True)
class SeenGraph:
    name: str
    facts: GraphFacts
    count: Count


@dataclass(frozen=True, slots=True)
class SeenProcess:
    name: str
    started_by: str | None
    facts: ProcessFacts
    "The facts in the process's part. They are empty if it has not imported torch."
    graphs: tuple[SeenGraph, ...]
    order: Order
    outlives: bool = False
    has_torch: bool = True


def last(calls: Sequence[CallSite]) -> CallSite | None:
    """Return the innermost call, or None if there is none."""
    return calls[-1] if calls else None


def seen_processes(parts: Sequence[Part]) -> list[SeenProcess]:
    """Return the processes, named by the process that started them (`0`, `0.1`, `0.2`).

    Processes with a rank come first, in the order of their ranks. Other processes follow, in the order in which they
    were started. A process without torch is included only if it started a process with torch.
    """
    tokens = {part.token for part in parts}
    children = grouped(parts, lambda part: part.parent if part.parent in tokens else "")
    for siblings in children.values():
        siblings.sort(key=_turn)
    found: list[SeenProcess] = []

    def add(part: Part, name: str, started_by: str | None) -> None:
        facts = part.facts or ProcessFacts(steps=())
        graphs = tuple(SeenGraph(str(one.number + 1), one, part.counts[one.number]) for one in facts.graphs)
        has_torch = part.facts is not None
        found.append(SeenProcess(name, started_by, facts, graphs, part.order, part.outlives, has_torch))
        for number, child in enumerate(_worth(children.get(part.token, ()), children), 1):
            add(child, f"{name}.{number}", name)

    roots = _worth(children.get("", ()), children) or children.get("", [])[:1]
    for number, root in enumerate(roots):
        add(root, str(number), None)
    return found


def _turn(part: Part) -> tuple[bool, int, int]:
    """Return a key that sorts the processes that one process has started.

    Ranks come first, in their order. Other processes are sorted by their process ids, which grow with each start. The
    time at which a process begins to run Python is no reliable key.
    """
    rank, number = None if part.facts is None else part.facts.rank, part.token.partition("-")[0]
    return rank is None, rank or 0, int(number) if number.isdecimal() else 0


def _worth(parts: Sequence[Part], children: Mapping[str, Sequence[Part]]) -> list[Part]:
    """Return the parts of processes that imported torch, or that started a process which imported torch."""
    return [part for part in parts if part.facts is not None or _worth(children.get(part.token, ()), children)]
