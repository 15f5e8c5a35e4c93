"""Events between replays on a real GPU: moved memory, and launch choices that are slow at another length."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphsafe

pytestmark = [pytest.mark.gpu, pytest.mark.child]
TARGETS = Path(__file__).parents[1] / "capture" / "targets" / "events.py"


def test_a_launch_choice_for_another_length_is_timed() -> None:
    report = graphsafe.capture(f"{TARGETS}:pages", device="cuda:0")
    assert report.verdict == "ready"
    (found,) = report.findings
    assert (found.code, found.level) == ("GS713", "warning")
    assert "`longest` is not part of the graph's key: it was 1 at the capture and 512 after `long`" in found.message
    assert found.data["frozen_ms"] > 1.2 * found.data["fresh_ms"] > 0


def test_sound_events_leave_a_ready_step_without_findings() -> None:
    report = graphsafe.capture(f"{TARGETS}:sound", device="cuda:0")
    assert (report.verdict, report.findings) == ("ready", ())


def test_events_that_replace_what_the_graph_reads_are_named() -> None:
    report = graphsafe.capture(f"{TARGETS}:stale", device="cuda:0")
    assert report.verdict == "not-ready"
    assert [one.code for one in report.findings] == ["GS712", "GS712"]


def test_memory_that_happens_to_come_back_is_not_relied_on() -> None:
    report = graphsafe.capture(f"{TARGETS}:slept", device="cuda:0")
    assert report.verdict == "not-ready"
    (found,) = report.findings
    assert found.code == "GS712" and "`linear.weight`" in found.message
