"""Captures that are repeated while the program serves (GS617), and those that only come with a new size or model."""

from __future__ import annotations

from dataclasses import replace

from graphsafe.run.counters import Count
from graphsafe.run.facts import OutsideUse
from graphsafe.run.parent.replay_counts import recaptures
from graphsafe.run.parent.seen import SeenGraph
from tests.run.test_ranks import graph


def captured_in_turn(replays: int, *, dropped: bool = False, sizes: tuple[int, ...] = (8,)) -> list[SeenGraph]:
    """Return six graphs of one line, each captured after the last replay of the previous one."""
    found = []
    for number in range(6):
        begun = 10 * number
        shape = f"float32[{sizes[number % len(sizes)]}]"
        one = graph(
            number,
            3,
            1,
            begun=begun,
            dropped=begun + 11 if dropped else None,
            outside=(OutsideUse("x", shape, 4, None, "read", certain=True, status="alive"),),
        )
        found.append(replace(one, count=Count(replays, begun + 1, begun + 9)))
    return found


def test_graphs_that_are_dropped_or_replaced_after_few_replays_are_told() -> None:
    for dropped in (True, False):
        (told,) = recaptures(captured_in_turn(20, dropped=dropped))
        assert (len(told.graphs), told.replays) == (6, 120)


def test_a_server_that_loads_another_model_after_many_replays_is_not_told() -> None:
    assert not recaptures(captured_in_turn(200, dropped=True))


def test_graphs_of_other_sizes_are_told_only_if_they_are_hardly_replayed() -> None:
    sizes = (1, 2, 3, 4, 5, 6)
    assert not recaptures(captured_in_turn(50, sizes=sizes)), "each is kept, and may be replayed again"
    (told,) = recaptures(captured_in_turn(1, sizes=sizes))
    assert told.varied == "x = float32[1], float32[2], float32[3], float32[4] and 2 more"
