"""Host state may decide long after the steps that are compared: the horizon says for how long it did not."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from graphsafe.capture.child.lines.clocks import LATER
from graphsafe.capture.parent.limits import limits_of
from graphsafe.capture.shared.answers import Answers, written
from graphsafe.report.probes.horizon import Horizon
from graphsafe.report.probes.probe import ProbeStatus
from graphsafe.report.probes.state import Change, State

from .conftest import DEVICES, TARGETS, Prove, Reports, codes_of, marked, probes_of

LATE = {
    "counter": 64,
    "numpy_counter": 50,
    "schedule": 40,
    "cycle": 31,
    "generator": 21,
    "context": 46,
    "coin": None,
    "swap": 32,
    "reloaded": 12,
    "evicted": 13,
    "exact_later": 11,
    "transposed": 13,
    "other_random_state": 13,
    "packed": 24,
}
CLOCKS = (
    *("until", "injected_clock", "date", "raw_clock", "local_time", "day"),
    *("clock_in_closure", "clock_by_default", "stamp", "day_text", "timer", "cpu_usage"),
    *("slotted_clock", "stored_now", "night", "full_before_clock", "polled", "polled_by_event", "half_hours"),
)
SOUND = (
    *("full", "logged", "ring", "dropout", "alternating", "kept", "never_exact", "packed_outside", "grown_base"),
    *("polled_in_tensor", "redrawn"),
)
RARE = ("rare_coin", "rare_numpy_coin", "rare_own_coin", "rare_in_refresh")
SLOW = (
    *("numpy_counter", "schedule", "cycle", "context", "reloaded", "exact_later", "transposed", "other_random_state"),
    *("packed", "date", "raw_clock", "local_time", "day", "clock_in_closure", "clock_by_default", "stamp", "timer"),
    *("ring", "alternating", "packed_outside", "grown_base", "polled_by_event"),
    *("coin", "cpu_usage", "slotted_clock", "night", "half_hours"),
)
LINES = {"counter": 30, "swap": 118}


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    names = (*LATE, *CLOCKS, *RARE, *SOUND, "uptime", "settings_file")
    return Reports(prove, f"{TARGETS}/later.py:build_", request.param, names, SLOW)


@pytest.mark.parametrize("name", marked(LATE, SLOW))
def test_state_that_decides_later_is_not_ready_and_the_step_is_told(reports: Reports, name: str) -> None:
    report = reports[name]
    assert report["verdict"] == "not-ready"
    departure = probes_of(report)["horizon"]["departure"]
    assert departure["under"] == "further steps"
    if LATE[name] is not None:
        # Three watched steps, the warm-up and one to watch the memory come before: far from where it would be seen.
        assert 8 < departure["step"] < LATE[name]
    assert codes_of(report, "error") in (["GS702"], ["GS504"], ["GS703"])


@pytest.mark.parametrize("name", marked(CLOCKS, SLOW))
def test_a_step_that_reads_a_clock_is_not_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"
    assert probes_of(reports[name])["horizon"]["departure"]["under"] == "clocks a day later"


@pytest.mark.parametrize("name", RARE)
def test_a_number_that_the_host_draws_seldom_is_drawn(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"
    assert codes_of(reports[name], "error") == ["GS702" if name == "rare_in_refresh" else "GS504"]
    assert probes_of(reports[name])["horizon"]["departure"]["under"] == "rare random numbers on the host"


@pytest.mark.parametrize("period", [0.5, 1, 10, 20, 60, 600, 1_200, 3_600, 7_200, 86_400, 604_800, 31_557_600])
def test_clocks_are_set_to_all_parts_of_a_period(period: float) -> None:
    for steps, most in ((LATER, 0.1), (LATER[:10], 0.3)):
        parts = sorted(seconds % period / period for seconds in (0.0, *steps))
        assert max(later - part for part, later in itertools.pairwise([*parts, 1.0])) < most


@pytest.mark.parametrize("name", marked(SOUND, SLOW))
def test_what_decides_nothing_is_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "ready"
    assert probes_of(reports[name])["horizon"]["steps"] > (30 if name == "full" else 100)


def test_a_number_that_still_changes_is_a_limit(reports: Reports) -> None:
    (limit,) = [limit for limit in reports["logged"]["limits"] if limit["kind"] == "horizon"]
    assert "steps still change n, spent" in limit["why"]
    assert "horizon" not in [limit["kind"] for limit in reports["dropout"]["limits"]]


def test_a_file_of_the_system_could_not_be_varied_and_forbids_ready(reports: Reports) -> None:
    assert reports["uptime"]["verdict"] == reports["settings_file"]["verdict"] == "inconclusive"
    assert ("not-varied", "/proc/uptime") in [(limit["kind"], limit["what"]) for limit in reports["uptime"]["limits"]]
    assert "not-varied" not in [limit["kind"] for limit in reports["logged"]["limits"]]


@pytest.mark.slow
def test_the_loop_sees_what_the_step_counts_on_the_device(prove: Prove) -> None:
    names = {"halved_by_count": "not-ready", "filled_by_count": "ready"}
    names |= {"halved_beside_check": "not-ready", "filled_beside_check": "ready"}
    reports = dict(zip(names, prove([f"{TARGETS}/later.py:build_{name}" for name in names], "sim"), strict=True))
    assert {name: report["verdict"] for name, report in reports.items()} == names
    assert probes_of(reports["halved_beside_check"])["horizon"]["departure"]["step"] > 20
    assert probes_of(reports["filled_beside_check"])["replay"]["rounds"] > 30


BY_FILES = {"brake": "inconclusive", "brake_noted": "inconclusive", "pages_noted": "ready"}
MORE_FILES = {"touched": "inconclusive", "requests": "inconclusive"}


@pytest.mark.parametrize("expected", [BY_FILES, pytest.param(MORE_FILES, marks=pytest.mark.slow)])
def test_a_file_of_which_each_step_asks_forbids_ready(prove: Prove, expected: dict[str, str]) -> None:
    reports = prove([f"{TARGETS}/later.py:build_{name}" for name in expected], "sim")
    assert {name: report["verdict"] for name, report in zip(expected, reports, strict=True)} == expected


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        pytest.param("particle_filter", ["GS102", "GS106", "GS201"], marks=pytest.mark.slow),
        ("beam_manager", ["GS101", "GS402"]),
    ],
)
def test_a_cause_that_is_named_is_not_blamed_again(prove: Prove, name: str, codes: list[str]) -> None:
    """A branch by a device value, and a tensor that grows, also make later steps differ."""
    target = Path(__file__).parents[1] / "scan" / "fresh9" / name / "main.py"
    (report,) = prove([f"{target}:build"], "sim")
    assert report["verdict"] == "not-ready"
    assert sorted(codes_of(report, "error")) == codes


@pytest.mark.slow
def test_another_path_that_rounds_compared_is_harmless_and_no_other(prove: Prove) -> None:
    names = ("neutral", "neutral_until", "held")
    neutral, until, held = prove([f"{TARGETS}/later.py:build_{name}" for name in names], "sim")
    assert (neutral["verdict"], probes_of(neutral)["horizon"]["other_paths"]) == ("ready", 1)
    assert (until["verdict"], codes_of(until, "error")) == ("not-ready", ["GS702"])
    assert probes_of(until)["horizon"]["departure"]["step"] >= 400 - 8
    assert held["verdict"] == "not-ready"


def test_a_refresh_that_seldom_changes_the_data_is_enough(prove: Prove) -> None:
    (report,) = prove([f"{TARGETS}/later.py:build_seldom"], "sim")
    assert report["verdict"] == "ready" and probes_of(report)["replay"]["varied"] > 100


@pytest.mark.parametrize(("status", "begins"), [("pass", "after 8 further steps, "), ("fail", "in further steps, ")])
def test_the_steps_before_another_path_are_not_called_all_further_steps(status: ProbeStatus, begins: str) -> None:
    answers = Answers(written(Horizon(status, steps=8, changing=("n",))))
    (limit,) = limits_of(answers, is_captured=True, called="step.py:build", device="sim:0")
    assert limit.why.startswith(f"{begins}steps still change n")


def test_an_iterator_that_steps_advance_may_have_a_later_effect() -> None:
    state = State("pass", changed=(Change("scales", "opaque", None, None),))
    answers = Answers(written(Horizon("pass", steps=8), state))
    (limit,) = limits_of(answers, is_captured=True, called="step.py:build", device="sim:0")
    assert limit.why.startswith("after 8 further steps, steps still change scales")
