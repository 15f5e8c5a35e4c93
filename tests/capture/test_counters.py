"""Counters on the host may decide after more steps than capture runs: capture sets them ahead."""

from __future__ import annotations

import random

import numpy
import pytest
import torch

from graphsafe.capture.child.probes.further.counters import _compared_in
from graphsafe.capture.child.state.rare_draws import draw_at_an_end

from .conftest import TARGETS, Prove, Reports, codes_of, marked, probes_of

FAR = {
    "every": 5_000,
    "without_refresh": 5_000,
    "constant": 3_000,
    "countdown": 4_000,
    "tokens": 2_500,
    "scheduler": 2_000,
    "by_default": 2_000,
    "simulated": 3_000,
    "class_default": 3_000,
    "dataclass_default": 3_000,
    "numpy_number": 3_000,
    "parsed_arguments": 3_000,
    "share": 6_000,
    "sum": 3_097,
    "array_of_lengths": 2_018,
    "lengths_on_host": 2_018,
    "losses": 2_000,
    "number_of_refresh": 3_000,
}
STATE = ("epochs", "history", "text", "array", "time", "decimal")
SOUND = (
    *("same_work", "logged", "set_back_by_refresh", "set_back_each_epoch", "set_back_by_reset", "full", "wrapping"),
    *("paired", "long_schedule", "timed", "requests", "recent"),
    "rows_by_number",
)
WITHOUT_NUMBER = "long_schedule", "timed", "requests", "recent", "rows_by_number"
"The sound steps that have no attribute `n`."
SLOW = (
    *("without_refresh", "constant", "tokens", "scheduler", "by_default", "same_work", "logged"),
    *("set_back_by_reset", "full", "long_schedule", "countdown", "wrapping", "paired", "simulated", "timed"),
    *("dataclass_default", "class_default", "parsed_arguments", "text", "array", "time", "decimal", "share", "epochs"),
    *("lengths_on_host", "requests", "losses", "recent"),
)


@pytest.fixture(scope="module")
def reports(prove: Prove) -> Reports:
    return Reports(prove, f"{TARGETS}/far.py:build_", "sim", (*FAR, *SOUND, *STATE), SLOW)


@pytest.mark.parametrize("name", marked(FAR, SLOW))
def test_a_counter_that_decides_far_ahead_is_not_ready(reports: Reports, name: str) -> None:
    report = reports[name]
    assert report["verdict"] == "not-ready" and codes_of(report, "error") == ["GS702"]
    horizon = probes_of(report)["horizon"]
    assert horizon["departure"]["under"] == "further steps"
    # A program needs so many steps after the capture: a few steps of the counter come before.
    assert FAR[name] - 20 < horizon["departure"]["step"] <= FAR[name] + 1
    assert horizon["steps"] <= 1_024


def test_another_branch_is_told_with_the_lines_of_both(reports: Reports) -> None:
    (found,) = [one for one in reports["every"]["findings"] if one["code"] == "GS702"]
    lines = (TARGETS / "far.py").read_text(encoding="utf-8").splitlines()
    at = lines.index("            return x * 3") + 1
    captured, _, later = found["why"].partition("a branch changes: the capture runs ")[2].partition(", but ")
    assert f"far.py:{at + 1}" in captured and f"far.py:{at} " in later


@pytest.mark.parametrize("name", marked(SOUND, SLOW))
def test_a_counter_that_decides_nothing_or_never_comes_so_far_is_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "ready"
    limits = [limit["why"] for limit in reports[name]["limits"] if limit["kind"] == "horizon"]
    assert ("steps still change n" in "".join(limits)) == (name not in WITHOUT_NUMBER)


@pytest.mark.parametrize("name", marked(STATE, SLOW))
def test_other_state_that_still_changes_is_named(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "ready"
    (limit,) = [limit["why"] for limit in reports[name]["limits"] if limit["kind"] == "horizon"]
    assert f"steps still change {'len(state)' if name == 'history' else 'state'}" in limit


def test_the_ends_of_random_numbers() -> None:
    python, own, bits = random.Random(1), torch.Generator(), numpy.random.default_rng(1)
    old = numpy.random.RandomState(1)
    for highest, near in ((False, 0.0), (True, 1.0)):
        draw_at_an_end(highest, (python, own, bits, old, random.SystemRandom()))
        several = (
            [random.random() for _ in range(40)],
            [numpy.random.random() for _ in range(40)],
            [torch.rand(()).item() for _ in range(40)],
            [python.random() for _ in range(40)],
            [torch.rand((), generator=own).item() for _ in range(40)],
            [old.random() for _ in range(40)],
            [bits.random() for _ in range(40)],
        )
        for numbers in several:
            assert numbers[0] == pytest.approx(near, abs=1e-6) and numbers[-1] != pytest.approx(near, abs=1e-6)


def test_constants_with_which_code_decides() -> None:
    def decide(n: int, limit: int = 7) -> bool:
        size = n + 50
        return n > 750 or n % 100 == 0 or n // 2000 == 3 or size == limit

    assert _compared_in(decide.__code__) == {750, 100, 0, 2000, 3}
