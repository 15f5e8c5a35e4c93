"""Sizes that would cover steps without a graph, what padding wastes, and the bars that show them."""

from __future__ import annotations

import random

from graphsafe.report.ledger.traffic import LONGEST, advice, left_out, rows
from graphsafe.run.parent.replay_counts import cover


def test_sizes_between_captured_ones_need_padding_only() -> None:
    assert cover({15: 3, 31: 1}, [16, 32]) == ([], round(1 - (15 * 3 + 31) / (16 * 3 + 32), 4))


def test_a_size_above_all_captured_ones_has_to_be_captured() -> None:
    assert cover({3: 1, 6: 2}, [1, 2, 4]) == ([6], 0.0625)


def test_sizes_are_added_while_padding_is_more_than_a_little() -> None:
    """9 to 12 would be padded to 16; 12 alone brings the waste down."""
    sizes, waste = cover({9: 10, 12: 90}, [1, 8, 16])
    assert sizes == [12] and waste < 0.1


def test_every_size_can_be_padded_and_the_waste_is_that_of_padding() -> None:
    seed = random.Random(0)
    for _ in range(50):
        eager = {seed.randint(1, 300): seed.randint(1, 50) for _ in range(seed.randint(1, 30))}
        captured = sorted({seed.randint(1, 200) for _ in range(seed.randint(1, 6))})
        further, waste = cover(eager, captured)
        sizes = sorted([*captured, *further])
        padded = {size: next(one for one in sizes if one >= size) for size in eager}
        work = sum(times * padded[size] for size, times in eager.items())
        assert waste == round(1 - sum(times * size for size, times in eager.items()) / work, 4)
        assert len(further) <= 8 and set(further) <= set(eager)


DATA = {"steps": 3, "sizes": {"3": 1, "6": 2}, "captured_sizes": [1, 4], "replays": {"1": 0, "4": 40}}


def test_a_bar_is_as_long_as_its_size_ran_often() -> None:
    found = [(size, len(bar), text) for size, bar, text in rows(DATA)]
    assert found == [
        (1, 0, "captured, 0 replays"),
        (3, 1, "no graph, 1 step"),
        (4, LONGEST, "captured, 40 replays"),
        (6, 2, "no graph, 2 steps"),
    ]


def test_a_captured_size_that_ran_without_its_graph_says_both() -> None:
    ((_, _, text),) = rows({"sizes": {"4": 18}, "captured_sizes": [4], "replays": {"4": 12}})
    assert text == "captured, 12 replays; no graph, 18 steps"


def test_of_many_sizes_the_frequent_ones_are_shown_and_the_others_counted() -> None:
    data = {"steps": 0, "sizes": {str(size): size for size in range(1, 101)}, "captured_sizes": []}
    assert [size for size, _, _ in rows(data)] == list(range(77, 101)) and left_out(data) == 76


def test_a_ledger_without_replays_by_size_has_rows_too() -> None:
    data = {"steps": 2, "sizes": {"6": 2}, "captured_sizes": [4]}
    assert [(size, text) for size, _, text in rows(data)] == [(4, "captured"), (6, "no graph, 2 steps")]


def test_the_advice_says_what_to_capture_and_what_padding_wastes() -> None:
    assert advice([6, 12], 0.0625) == (
        "With 6 and 12 captured too, graphs would cover them all; padding would be 6.2 % of their work."
    )
    assert advice([5], 0.0) == "With 5 captured too, graphs would cover them all, without padding."
    assert advice([], 0.05).startswith("Padded to captured sizes, they need no further graph; padding would be 5 %")
    assert advice(None, None) == ""
