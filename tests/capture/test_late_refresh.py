"""A refresh may change the host after more steps than capture runs: capture calls the refresh without steps."""

from __future__ import annotations

import pytest

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
