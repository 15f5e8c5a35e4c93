"""A tensor on the host that steps count up is like a count in Python: what depends on it makes a step not ready."""

from __future__ import annotations

import pytest

from .conftest import DEVICES, TARGETS, Prove, Reports, marked

SOUND, UNSOUND = ("adagrad", "unread"), ("adagrad_decay", "late", "branch", "shown")
SLOW = ("unread", "adagrad_decay", "late", "shown")


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    return Reports(prove, f"{TARGETS}/host_counts.py:build_", request.param, (*SOUND, *UNSOUND), SLOW)


@pytest.mark.parametrize("name", marked(SOUND, SLOW))
def test_a_count_that_decides_nothing_is_told_beside_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "ready"
    assert "not-compared" in [limit["kind"] for limit in reports[name]["limits"]]


@pytest.mark.parametrize("name", marked(UNSOUND, SLOW))
def test_a_step_that_depends_on_its_count_is_not_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"
