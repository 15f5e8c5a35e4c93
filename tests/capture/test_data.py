"""Loops read data from files in memory, iterators and random numbers: sound ones are ready, whatever cannot be put back
or seeded."""

from __future__ import annotations

import pytest

from .conftest import DEVICES, TARGETS, Prove, Reports, marked

SOUND = ("read", "made_unseeded", "drawn_unseeded", "seeded_by_clock")
FAULTY = ("read_by_step", "read_with_request", "made_unseeded_and_kept", "drawn_unseeded_by_step")
SLOW = ("read_with_request", "made_unseeded_and_kept", "drawn_unseeded_by_step", "seeded_by_clock")


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    return Reports(prove, f"{TARGETS}/data.py:build_", request.param, (*SOUND, *FAULTY, "first_request"), SLOW)


@pytest.mark.parametrize("name", marked(SOUND, SLOW))
def test_a_loop_that_copies_its_data_into_place_is_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "ready"


@pytest.mark.parametrize("name", marked(FAULTY, SLOW))
def test_a_step_that_reads_the_data_on_the_host_is_not_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"


def test_a_first_step_that_cannot_be_repeated_is_never_ready(reports: Reports) -> None:
    assert reports["first_request"]["verdict"] != "ready"


def test_what_was_not_put_back_is_a_limit(reports: Reports) -> None:
    limits = [limit["why"] for limit in reports["read"]["limits"] if limit["kind"] == "state"]
    assert "a ContextVar cannot be restored: ValueError; further eager runs began without restoring it" in limits
