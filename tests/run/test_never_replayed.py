"""Graphs without a replay (GS618): one of several for the same work may only await its turn."""

from __future__ import annotations

from typing import Any

from graphsafe.report.model import CallSite
from graphsafe.rulebook.book import load_rulebook
from graphsafe.run.counters import Count, Order
from graphsafe.run.facts import ProcessFacts, StepFacts
from graphsafe.run.parent.findings import findings_of
from graphsafe.run.parent.seen import SeenGraph, SeenProcess
from tests.run.test_ranks import graph

HELPER = CallSite(__file__, 3, "captured")


def captured(number: int, line: int, kernels: int, replays: int) -> SeenGraph:
    """Return a graph that a helper captured, called from this line."""
    called = CallSite(__file__, line, "main")
    made = graph(number, 0, 1, frames=(called, HELPER), nodes={"kernel": kernels})
    return SeenGraph(made.name, made.facts, Count(replays, 1, 2) if replays else Count(0, 0, 0))


def told(*graphs: SeenGraph, eager: int = 0) -> list[tuple[int, Any]]:
    """Return lines and graphs of the findings, where steps of the first graph's work also ran eagerly."""
    step = StepFacts(sizes={"99": eager}, captured={"4": (0,)})
    facts = ProcessFacts(ended=True, steps=(step,) if eager else ())
    findings, _ = findings_of([SeenProcess("0", None, facts, graphs, Order())], load_rulebook())
    return [(one.location.line, one.data["graphs"]) for one in findings if one.code == "GS618"]


def test_a_step_of_its_own_is_told_although_a_helper_captured_others_that_are_replayed() -> None:
    assert told(captured(0, 10, 4, 5), captured(1, 11, 6, 5), captured(2, 12, 9, 0)) == [(3, ["3"])]


def test_a_size_that_awaits_its_turn_is_not_told() -> None:
    loop = [captured(number, 10, 4 + number, replays) for number, replays in enumerate((0, 5, 9))]
    assert told(*loop) == []
    lines = [captured(number, 10 + number, 4, replays) for number, replays in enumerate((0, 5, 9))]
    assert told(*lines) == []


def test_a_size_is_told_after_a_hundred_replays_for_each_that_is_like_it() -> None:
    assert told(captured(0, 10, 4, 0), captured(1, 10, 5, 200)) == [(3, ["1"])]
    other = captured(2, 11, 7, 900)  # another step's replays do not count
    assert told(captured(0, 10, 4, 0), captured(1, 10, 5, 199), other) == []


def test_graphs_of_which_none_is_replayed_are_told_once() -> None:
    assert told(captured(0, 10, 4, 0), captured(1, 10, 5, 0), captured(2, 11, 9, 5)) == [(3, ["1", "2"])]


def test_steps_that_run_eagerly_are_chances_too() -> None:
    barely = captured(0, 10, 4, 2), captured(1, 10, 5, 0)
    assert told(*barely, eager=150) == []
    assert told(*barely, eager=300) == [(3, ["2"])]
