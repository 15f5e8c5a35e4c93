"""A refresh may change the host after more steps than capture runs: capture calls the refresh without steps."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from graphsafe.capture.child.probes.further.refresh_calls import _uses_number

from .conftest import TARGETS, Prove, Reports, codes_of, marked, probes_of

LATE = {"epochs": 20 * 90, "iterator": 1_800, "rare_draw": 1_101, "unfrozen": 5 * 313}
"A faulty step -> the number of steps after which its refresh changes the host at the earliest."
SOUND = "epochs_on_device", "iterator_ends", "growing", "several_kinds"
SLOW = "iterator", "growing", "several_kinds", "unfrozen"


@pytest.fixture(scope="module")
def reports(prove: Prove) -> Reports:
    return Reports(prove, f"{TARGETS}/late_refresh.py:build_", "sim", (*LATE, *SOUND), SLOW)


@pytest.mark.parametrize("name", marked(LATE, SLOW))
def test_a_late_change_is_not_ready(reports: Reports, name: str) -> None:
    report = reports[name]
    assert report["verdict"] == "not-ready" and "GS702" in codes_of(report, "error")
    departure = probes_of(report)["horizon"]["departure"]
    assert departure["under"] == "further steps" and departure["step"] >= LATE[name] - 100


@pytest.mark.parametrize("name", marked(SOUND, SLOW))
def test_a_late_change_without_effect_is_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "ready"


def test_whether_a_refresh_uses_its_number() -> None:
    class Loop:
        def next_batch(self, args: Any, kwargs: Any, k: int) -> None:
            args[0].fill_(1)

        def count(self, args: Any, kwargs: Any, k: int) -> None:
            args[0].fill_(k)

    def plain(args: Any, kwargs: Any, number: int, scale: int = 2) -> None:
        args[0].fill_(scale)

    def counting(args: Any, kwargs: Any, number: int) -> None:
        (lambda: args[0].fill_(number))()

    assert not _uses_number(Loop().next_batch) and not _uses_number(plain)
    assert _uses_number(Loop().count) and _uses_number(counting)
    assert _uses_number(functools.partial(plain)) and _uses_number(lambda *given: None)
