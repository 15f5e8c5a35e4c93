"""What an engine does between replays: `graphsafe.Step(..., events=...)`."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphsafe

pytestmark = pytest.mark.child
TARGETS = Path(__file__).parent / "targets" / "events.py"


@pytest.mark.slow
def test_replays_after_sound_events_equal_eager_steps() -> None:
    report = graphsafe.capture(f"{TARGETS}:sound", device="sim")
    assert report.verdict == "ready" and report.findings == ()
    (device,) = report.devices or ()
    checks = {check["name"]: check["result"] for check in device.probes["replay"]["checks"]}
    assert checks["output after reload"] == checks["output after gc"] == "equal"


def test_an_event_that_replaces_what_the_graph_reads_is_named() -> None:
    report = graphsafe.capture(f"{TARGETS}:stale", device="sim")
    assert report.verdict == "not-ready"
    found = [(one.code, one.location.function, one.message) for one in report.findings]
    assert found == [
        ("GS712", "Engine.replace", "after `replace`, `linear.weight` is at another address"),
        ("GS712", "Engine.grow", "after `grow`, `scale` is at another address"),
    ]


@pytest.mark.slow
def test_a_launch_choice_for_another_length_is_a_note_with_the_length_behind_it() -> None:
    report = graphsafe.capture(f"{TARGETS}:pages", device="sim")
    assert report.verdict == "ready"
    (found,) = report.findings
    assert (found.code, found.level) == ("GS713", "note")
    assert (found.location.function or "").startswith("Attention.forward")
    assert "`longest` is not part of the graph's key: it was 1 at the capture and 512 after `long`" in found.message
    assert "the simulated device cannot measure times" in found.message
    assert (found.data["event"], found.data["frozen_ms"]) == ("long", None)


@pytest.mark.slow
def test_memory_that_an_event_frees_is_lost_though_its_successor_has_the_same_values() -> None:
    report = graphsafe.capture(f"{TARGETS}:stale_with_equal_values", device="sim")
    assert report.verdict == "not-ready"
    found = [(one.code, one.location.function, one.message) for one in report.findings]
    assert found == [("GS712", "Engine.reload_the_same", "after `reload`, `scale` is at another address")]


@pytest.mark.slow
def test_weights_that_come_back_from_the_host_have_other_memory() -> None:
    report = graphsafe.capture(f"{TARGETS}:slept", device="sim")
    assert report.verdict == "not-ready"
    assert [(one.code, one.location.function) for one in report.findings] == [("GS712", "slept.sleep_and_wake")]


@pytest.mark.slow
def test_an_event_that_fails_leaves_the_verdict_open_and_says_why() -> None:
    report = graphsafe.capture(f"{TARGETS}:failing", device="sim")
    assert report.verdict == "inconclusive" and report.findings == ()
    assert ["the event 'fail' failed: ZeroDivisionError" in limit.why for limit in report.limits] == [True]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "event"), [("second", "add"), ("adopted_later", "announce")])
def test_an_event_that_acts_the_second_time_or_some_rounds_later_is_named(name: str, event: str) -> None:
    report = graphsafe.capture(f"{TARGETS}:{name}", device="sim")
    assert report.verdict == "not-ready"
    assert [(one.code, one.message) for one in report.findings] == [
        ("GS712", f"after `{event}`, `rows` is at another address")
    ]


@pytest.mark.slow
def test_what_an_event_announces_may_be_copied_in_place() -> None:
    assert graphsafe.capture(f"{TARGETS}:adopted_later_in_place", device="sim").verdict == "ready"


@pytest.mark.slow
def test_without_a_refresh_each_event_happens_twice_too() -> None:
    report = graphsafe.capture(f"{TARGETS}:grown_pool", device="sim")
    assert report.verdict == "not-ready"
    assert [(one.code, one.message) for one in report.findings] == [
        ("GS712", "after `load`, `rows` is at another address")
    ]


@pytest.mark.parametrize("name", ["full_pool", pytest.param("loaded_once", marks=pytest.mark.slow)])
def test_an_event_that_is_sound_or_fails_the_second_time_leaves_the_verdict_ready(name: str) -> None:
    report = graphsafe.capture(f"{TARGETS}:{name}", device="sim")
    assert report.verdict == "ready" and report.findings == ()


@pytest.mark.slow
def test_a_generator_of_batches_gives_the_same_after_an_event_in_each_process() -> None:
    assert graphsafe.capture(f"{TARGETS}:fed", device="sim").verdict == "ready"
    assert graphsafe.capture(f"{TARGETS}:fed_with_decay", device="sim").verdict == "not-ready"
