"""Steps that run only a few times before their room is used up: with a `reset`, graphsafe runs as many as it needs."""

from __future__ import annotations

import pytest

from .conftest import DEVICES, TARGETS, Prove, Reports, probes_of

NAMES = ("reset", "not_reset", "frozen", "frozen_not_reset")


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    return Reports(prove, f"{TARGETS}/rooms.py:build_", request.param, NAMES)


def test_a_reset_makes_room_for_further_captures_and_steps(reports: Reports) -> None:
    probes = probes_of(reports["reset"])
    assert reports["reset"]["verdict"] == "ready"
    assert probes["twin"]["status"] == "pass"
    assert probes["horizon"]["steps"] >= 128
    assert not any("failed" in limit["why"] for limit in reports["reset"]["limits"])


def test_without_a_reset_nothing_is_known_of_later_steps(reports: Reports) -> None:
    twin = probes_of(reports["not_reset"])["twin"]
    # On a slow machine, time is over before the room is used up.
    assert (reports["not_reset"]["verdict"], twin["status"]) in (("inconclusive", "skipped"), ("ready", "pass"))
    if twin["status"] == "skipped":
        assert "without a capture, the step fails too: the step failed: IndexError" in twin["reason"]


@pytest.mark.parametrize("name", ["frozen", "frozen_not_reset"])
def test_a_frozen_number_is_found_all_the_same(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"
    assert reports[name]["findings"][0]["code"] in ("GS702", "GS704")
