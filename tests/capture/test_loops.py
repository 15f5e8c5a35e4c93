"""Which loop is running: found in the bytecode of this version of Python."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from graphsafe.capture.shared.frames import Way, running_while

Ask = Callable[[], bool]


def by_break(ask: Ask) -> None:
    while True:
        if not ask():
            break


def with_handlers(ask: Ask) -> None:
    with suppress(KeyError):
        while True:
            try:
                if not ask():
                    return
            except ValueError:
                continue


def in_turns(ask: Ask) -> None:
    for _ in range(1):
        turns = 0
        while turns < 3:
            turns += 1
            if ask():
                continue


def through_a_function(ask: Ask) -> None:
    def more() -> bool:
        return ask()

    while True:
        if not more():
            break


def straight(ask: Ask) -> None:
    for _ in range(2):
        pass
    ask()


def in_a_for_loop(ask: Ask) -> None:
    while True:
        for _ in range(3):
            ask()
        break


def in_a_comprehension(ask: Ask) -> None:
    while True:
        assert [ask() for _ in range(3)]
        break


def in_a_long_for_loop() -> Callable[[Ask], None]:
    """Return a loop whose beginning needs an instruction of more than one byte's argument."""
    body = "\n".join(f"        v{number} = {number}" for number in range(400))
    names: dict[str, Callable[[Ask], None]] = {}
    exec(f"def long(ask):\n    for _ in range(2):\n{body}\n        ask()\n", names)
    return names["long"]


def _asked(function: Callable[[Ask], None]) -> list[Way | None]:
    ways: list[Way | None] = []

    def ask() -> bool:
        ways.append(running_while())
        return len(ways) < 3

    function(ask)
    return ways


@pytest.mark.parametrize("function", [by_break, with_handlers, in_turns, through_a_function])
def test_each_turn_of_a_while_loop_asks_in_the_same_way(function: Callable[[Ask], None]) -> None:
    ways = _asked(function)
    assert len(ways) == 3 and len(set(ways)) == 1
    assert ways[0] is not None and ways[0][-1][0] is function.__code__


@pytest.mark.parametrize("function", [straight, in_a_for_loop, in_a_comprehension, in_a_long_for_loop()])
def test_no_while_loop_is_running(function: Callable[[Ask], None]) -> None:
    ways = _asked(function)
    assert ways and set(ways) == {None}
