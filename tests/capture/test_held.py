"""Results and state are compared in objects of torch and of Python too, or else a step is not ready."""

from __future__ import annotations

import pytest

from .conftest import DEVICES, TARGETS, Prove, Reports, marked, probes_of

STALE = ("distribution", "view", "meters_in_set", "hook", "prior")
SOUND = (
    *("distribution_of_tensor", "view_of_tensor", "meters_of_tensors_in_set", "hook_of_tensor", "prior_of_tensor"),
    *("losses_put_by_loop", "empty_iterator", "scaled_training"),
)
UNREADABLE = ("zip", "generator", "like_elements", "future")
SLOW = (
    "view",
    "distribution",
    "view_of_tensor",
    "prior",
    *SOUND[3:],
    "generator",
    "like_elements",
    "future",
    "meters_in_set",
    SOUND[2],
)


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    return Reports(prove, f"{TARGETS}/held.py:build_", request.param, (*STALE, *SOUND, *UNREADABLE, "losses"), SLOW)


@pytest.mark.parametrize("name", marked(STALE, SLOW))
def test_a_number_that_the_graph_keeps_shows_in_what_it_reaches(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"
    assert any(check["result"] == "different" for check in probes_of(reports[name])["replay"]["checks"])


@pytest.mark.parametrize("name", marked(SOUND, SLOW))
def test_a_tensor_that_the_graph_reads_is_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "ready"


@pytest.mark.parametrize("name", marked(UNREADABLE, SLOW))
def test_a_result_that_cannot_be_read_is_inconclusive(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "inconclusive"
    checks = probes_of(reports[name])["replay"]["checks"]
    unread = [check["name"] for check in checks if check["result"] is None]
    assert unread and all(name.startswith("output[1]") for name in unread)


def test_tensors_that_only_an_eager_step_hands_on_make_a_step_inconclusive(reports: Reports) -> None:
    assert reports["losses"]["verdict"] == "inconclusive"
    [check] = [one for one in probes_of(reports["losses"])["replay"]["checks"] if one["result"] is None]
    assert check["name"].endswith("puts into mailbox")
