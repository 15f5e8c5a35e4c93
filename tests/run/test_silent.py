"""Faults that no error tells, on the simulated device: a program with each of them, and with sound code like it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graphsafe.report.model import CallSite
from graphsafe.run.child.source import same_loop
from graphsafe.run.child.steps import Step, Steps
from graphsafe.run.facts import Calls
from tests.conftest import ValidReport
from tests.run.test_run import PROGRAMS, expected, ledger_in, run

pytestmark = pytest.mark.child


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory, valid_report: ValidReport) -> Any:
    folder = tmp_path_factory.mktemp("silent")
    text = (PROGRAMS / "silent.py").read_text(encoding="utf-8")
    (folder / "silent.py").write_text(text, encoding="utf-8")
    ran = run(folder, "--", sys.executable, "silent.py")
    assert ran.stdout == "done\n" and ran.returncode == 0, ran.stderr
    return ledger_in(folder, valid_report)


def of(ledger: Any, code: str) -> list[Any]:
    return [finding for finding in ledger["findings"] if finding["code"] == code]


def test_every_fault_is_named_with_its_line_and_no_sound_code(ledger: Any) -> None:
    found = {(finding["code"], finding["location"]["line"]) for finding in ledger["findings"]}
    assert found == expected(PROGRAMS / "silent.py")


def test_a_graph_that_is_turned_off_is_told_with_its_replays(ledger: Any) -> None:
    (finding,) = of(ledger, "GS616")
    assert finding["data"]["sizes"] == {"4": 18} and finding["data"]["replays"] == {"4": 12}
    assert "18 steps of size 4 ran without a graph; the same loop made 12 replays" in finding["message"]
    assert finding["confidence"] == "likely" and finding["fix"].startswith("turn the graph on again")


def test_what_the_key_lacks_is_named(ledger: Any) -> None:
    told = {one["data"]["argument"]: (one["data"]["captured"], one["data"]["now"]) for one in of(ledger, "GS713")}
    assert told == {"self.scale": ("1.0", "2.0"), "adapter.scale": ("1.0", "4.0"), "length": ("16", "32")}


def test_a_merged_weight_is_told_with_what_was_written(ledger: Any) -> None:
    (finding,) = of(ledger, "GS712")
    assert finding["data"]["source"] == "self.base" and finding["data"]["what"] == ["self.weight"]
    assert finding["data"]["replays_since"] == 3


def test_captures_for_each_tensor_are_counted(ledger: Any) -> None:
    (finding,) = of(ledger, "GS617")
    assert (finding["data"]["captures"], finding["data"]["replays"]) == (6, 12)


def test_a_loop_is_the_same_only_under_the_same_calls(tmp_path: Path) -> None:
    path = tmp_path / "loops.py"
    path.write_text("for _ in x:\n    a()\n    b()\nfor _ in x:\n    def f():\n        b()\n    f()\nb()\n")

    def at(*lines: int) -> list[CallSite]:
        return [CallSite(str(path), line, None) for line in lines]

    assert same_loop(at(3), at(2)) and same_loop(at(3, 8), at(3, 6)) and same_loop(at(3), at(2, 6))
    assert not same_loop(at(3), at(7)) and not same_loop(at(8), at(8)) and not same_loop(at(6), at(7))
    assert not same_loop(at(8, 3), at(3, 3)) and not same_loop(at(2, 3), at(2))


def test_a_loop_that_calls_what_it_is_given_is_another_one_for_each_function(tmp_path: Path) -> None:
    path = tmp_path / "bench.py"
    text = "def bench(run):\n    for _ in x:\n        run()\ndef serve(run, on):\n    for _ in x:\n"
    path.write_text(f"{text}        replay() if on else run()\nfor run in y:\n    for _ in x:\n        run()\n")

    def at(line: int, *called: str) -> list[CallSite]:
        return [
            CallSite(str(path), 20, None),
            CallSite(str(path), line, "f"),
            *(CallSite("a", 1, one) for one in called),
        ]

    assert not same_loop(at(3, "<lambda>"), at(3)) and not same_loop(at(3, "eager"), at(3, "replay"))
    assert not same_loop(at(9), at(9)) and not same_loop(at(3, "<lambda>"), at(3, "<lambda>"))
    assert same_loop(at(3, "step", "eager"), at(3, "step")), "one function decides in each turn"
    assert same_loop(at(6, "eager"), at(6)), "the loop decides in each turn"


@dataclass
class Replays:
    """The replays of one graph."""

    number: int
    stack: Calls

    def replays(self, graph: int) -> int:
        return self.number

    def stacks(self, graph: int) -> list[Calls]:
        return [self.stack]


def test_steps_of_another_size_count_between_replays_or_in_their_loop(tmp_path: Path) -> None:
    path = tmp_path / "loops.py"
    path.write_text("for _ in x:\n    serve()\n    fall_back()\nfor _ in x:\n    check()\nstep()\n")
    serving, check, fallback, once = ((CallSite(str(path), line, None),) for line in (2, 5, 3, 6))

    def sizes(played: Replays, frames: Calls, later: int) -> Any:
        steps = Steps(played)
        steps.captured(Step((("step", "", 1),), ((4, 8),), ()), 0)
        for _ in range(12):
            steps.eager((("step", "", 1),), ((1, 8),), False, lambda: frames)
        played.number += later
        return steps.facts()[0].sizes

    assert sizes(Replays(3, serving), check, later=0) == {}
    assert sizes(Replays(3, serving), check, later=1) == {"1": 12}
    assert sizes(Replays(3, serving), fallback, later=0) == sizes(Replays(3, serving), once, later=0) == {"1": 12}


def test_an_operation_that_recurs_in_the_step_begins_one_step() -> None:
    key = ("mm", "", 1)
    steps = Steps(Replays(0, ()))
    steps.captured(Step((key,), ((4, 8),), (), times=2), 0)
    for size in (1, 1, 2, 2, 1, 1):
        steps.eager((key,), ((size, 8),), False, tuple)
    assert steps.facts()[0].sizes == {"1": 2, "2": 1}


def test_the_only_captured_size_is_that_of_the_input_not_of_the_bias() -> None:
    key, bias, weight = ("addmm", "", 1), (8,), (8, 8)
    steps = Steps(Replays(0, ()))
    steps.captured(Step((key,), (bias, (4, 8), weight), ()), 0)
    assert list(steps.facts()[0].captured) == ["4"]
    steps.eager((key,), (bias, (16, 8), weight), False, tuple)
    assert steps.facts()[0].sizes == {"16": 1} and list(steps.facts()[0].captured) == ["4"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("client_threads_a.py", [("GS714", 36)]),  # each thread has a current stream of its own
        pytest.param("client_threads_b.py", [], marks=pytest.mark.slow),
        pytest.param("pinned_step_a.py", [], marks=pytest.mark.slow),
        pytest.param("pinned_step_b.py", [("GS714", 41)], marks=pytest.mark.slow),  # NumPy writes
        pytest.param("speculative_a.py", [("GS618", 32)], marks=pytest.mark.slow),
        pytest.param("speculative_b.py", [], marks=pytest.mark.slow),
    ],
)
def test_streams_of_threads_and_graphs_of_a_helper_are_told_apart(
    tmp_path: Path, valid_report: ValidReport, name: str, found: list[tuple[str, int]]
) -> None:
    ran = run(tmp_path, "--", sys.executable, str(PROGRAMS.with_name("fresh2") / name))
    assert ran.returncode == 0, ran.stderr
    ledger = ledger_in(tmp_path, valid_report)
    assert [(one["code"], one["location"]["line"]) for one in ledger["findings"]] == found
