"""`--plan`: what is cut out of a step that cannot be captured whole, and what is said where that fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsafe import cli

from ..conftest import DEVICES, TARGETS, Answer, Prove, Report, Reports

pytestmark = pytest.mark.child

NAMES = [
    "stack",
    "growing_cache",
    "other_way",
    "all_read",
    "ready",
    "restless",
    "backward",
    "made_anew",
    "seldom",
    "fixed_inputs",
    "two_kinds",
]
SLOW = ("other_way", "backward", "seldom", "fixed_inputs", "two_kinds")
FILE = TARGETS / "planned.py"
LINES = [line.strip() for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    return Reports(prove, f"{FILE}:", request.param, NAMES, SLOW, plan=True)


def breaks(report: Report) -> list[str]:
    """The first statement of each break."""
    places = [segment["location"] for segment in report["plan"]["segments"] if segment["kind"] == "eager"]
    return [LINES[place["line"] - 1] for place in places]


@pytest.mark.slow
def test_a_function_that_every_layer_calls_is_one_cut(reports: Reports) -> None:
    plan = reports["stack"]["plan"]
    assert reports["stack"]["verdict"] == "ready-with-breaks" and plan["verified"]
    assert breaks(reports["stack"]) == ["return torch.bincount(choice, minlength=4).float() / choice.numel()"] * 3
    assert [segment["kind"] for segment in plan["segments"]] == ["graph", "eager"] * 3 + ["graph"]
    assert {segment["code"] for segment in plan["segments"]} == {None, "GS201"}
    states = {module["module"]: module["state"] for module in plan["modules"]}
    assert (states[""], states["layers.1"], states["layers.1.up"], states["head"]) == (
        "mixed",
        "mixed",
        "captured",
        "captured",
    )
    assert plan["fixes"][0]["code"] == "GS201" and plan["fixes"][0]["coverage"] == 1.0


@pytest.mark.slow
def test_breaks_of_two_kinds_are_cut_together(reports: Reports) -> None:
    report = reports["two_kinds"]
    assert report["verdict"] == "ready-with-breaks" and report["plan"]["verified"]
    # Either line may begin the break, which holds both or follows a graph with the other.
    assert {segment["code"] for segment in report["plan"]["segments"]} - {None} <= {"GS101", "GS703"}
    assert {segment["kind"] for segment in report["plan"]["segments"]} == {"graph", "eager"}


def test_a_growing_cache_is_an_eager_attention_between_two_graphs(reports: Reports) -> None:
    assert reports["growing_cache"]["verdict"] == "ready-with-breaks"
    assert [segment["kind"] for segment in reports["growing_cache"]["plan"]["segments"]] == ["graph", "eager", "graph"]
    assert breaks(reports["growing_cache"]) == ["self.keys = torch.cat([self.keys, hidden])"]


@pytest.mark.slow
def test_a_branch_taken_the_other_way_is_part_of_the_break(reports: Reports) -> None:
    plan = reports["other_way"]["plan"]
    assert plan["verified"]
    first, last = (segment["location"] for segment in plan["segments"] if segment["kind"] == "eager")
    assert LINES[first["line"] - 1] == "positive = bool(hidden.sum() > 0)" and first["end_line"] == first["line"]
    lines = LINES[last["line"] - 1 : last["end_line"]]
    assert lines[0] == "if positive:" and lines[-1].startswith("hidden = torch.sigmoid(")


def test_where_nothing_can_be_captured_it_is_said(reports: Reports) -> None:
    report = reports["all_read"]
    assert (report["verdict"], report["plan"]["coverage"]) == ("not-ready", 0.0)
    assert report["plan"]["reason"] == "no graph saves more than it costs"  # the sum could be captured, alone


def test_a_step_that_is_ready_is_one_graph(reports: Reports) -> None:
    report = reports["ready"]
    assert (report["verdict"], report["plan"]["verified"], report["plan"]["coverage"]) == ("ready", True, 1.0)
    assert [segment["kind"] for segment in report["plan"]["segments"]] == ["graph"]


def test_a_plan_that_does_not_give_what_eager_steps_give_is_not_verified(reports: Reports) -> None:
    report = reports["restless"]
    assert (report["verdict"], report["plan"]["verified"]) == ("not-ready", False)
    assert "output[1]" in report["plan"]["reason"]


@pytest.mark.slow
def test_no_break_is_made_inside_of_backward_which_runs_on_other_threads(reports: Reports) -> None:
    report = reports["backward"]
    assert (report["verdict"], report["plan"]["verified"]) == ("not-ready", False)
    # The forward is eager with the backward, and what is left, the optimizer, is too short for a graph.
    assert report["plan"]["coverage"] == 0.0


@pytest.mark.slow
def test_what_reads_a_counter_runs_eagerly_though_it_decided_the_same_each_time(reports: Reports) -> None:
    assert "if self.calls % 50 == 49:" in breaks(reports["seldom"])


@pytest.mark.slow
def test_what_was_not_put_to_the_test_is_not_verified(reports: Reports) -> None:
    report = reports["fixed_inputs"]
    assert report["verdict"] != "ready-with-breaks" and not (report["plan"] or {}).get("verified")


def test_of_a_function_that_is_made_anew_the_call_is_cut_out(reports: Reports) -> None:
    report = reports["made_anew"]
    assert report["plan"]["verified"]
    assert breaks(report) == ["hidden = scaled(hidden)"]


def test_the_terminal_shows_the_plan_at_eighty_columns(
    tmp_path: Path,
    command: Callable[..., Answer],
    reports: Reports,
    capfd: pytest.CaptureFixture[str],
) -> None:
    answer = command(f"{FILE}:made_anew", "--device", "sim", "--plan")
    assert answer.code == 1, answer.err
    shown = answer.out.partition("plan: ")[2]
    assert shown.startswith("verified, ") and all(len(line) <= 80 for line in shown.splitlines())
    (tmp_path / "graphsafe-report.json").write_text(json.dumps(reports["stack"]), encoding="utf-8")
    assert cli.main(["report", "graphsafe-report.json"]) == 0
    text = capfd.readouterr().out
    assert "plan: verified, 93 % of the operations in 4 graphs, 3 eager breaks" in text
    assert "GS201): coverage 93 % to 100 %" in " ".join(text.split())
    shown = text.partition("plan: ")[2].partition("Predicted")[0]
    assert shown and all(len(line) <= 80 for line in shown.splitlines())
    html = tmp_path / "plan.html"
    assert cli.main(["report", "graphsafe-report.json", "-o", str(html)]) in (0, 1)
    assert "<h2>Plan</h2>" in html.read_text(encoding="utf-8")


def test_without_a_second_step_of_warm_up_nothing_is_planned(prove: Prove) -> None:
    (report,) = prove([f"{FILE}:all_read"], "sim:0", plan=True, warmup=1)
    assert report["plan"] is None
    assert any(limit["kind"] == "plan" and "warm-up" in limit["why"] for limit in report["limits"])


@pytest.mark.slow
def test_work_on_another_device_is_cut_out(prove: Prove) -> None:
    (report,) = prove([f"{FILE}:pipeline"], "sim:1", plan=True)
    assert report["plan"]["verified"]
    assert breaks(report) == ["there = hidden.to(self.other)"]
    assert {segment["code"] for segment in report["plan"]["segments"]} == {None, "GS604"}


@pytest.mark.slow
def test_backward_and_optimizer_are_captured_around_a_loss_that_is_read(prove: Prove) -> None:
    (report,) = prove([f"{FILE}:training"], "sim:0", plan=True)
    plan = report["plan"]
    assert plan["verified"] and report["verdict"] == "ready-with-breaks"
    assert [segment["kind"] for segment in plan["segments"]] == ["graph", "eager", "graph"]
    assert breaks(report) == ["losses[:] = [loss.item()]"]


@pytest.mark.slow
def test_memory_that_runs_out_while_planning_is_said(prove: Prove) -> None:
    (report,) = prove([f"{FILE}:out_of_memory"], "sim:0", plan=True)
    assert (report["verdict"], report["plan"]["verified"]) == ("not-ready", False)
    assert "planning failed" in report["plan"]["reason"] and "CUDA out of memory" in report["plan"]["reason"]


@pytest.mark.slow
def test_planning_that_takes_too_long_is_said(prove: Prove) -> None:
    (report,) = prove([f"{FILE}:endless"], "sim:0", plan=True, timeout=15.0)
    assert (report["verdict"], report["plan"]["verified"]) == ("not-ready", False)
    assert report["plan"]["reason"].startswith("planning: not finished after 1")


CONFIGURED = """
[targets.mixed]
factory = "step.py:build"
device = "sim"
breaks = true

[targets.whole]
factory = "step.py:build"
device = "sim"
"""
STEP = """
import torch


def build(device):
    layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3))).to(device)
    return (lambda x: step(layers, x)), (torch.randn(2, 4, device=device),)


def step(layers, x):
    x = layers(x)
    size = x.sum().item()
    return layers(x) * size
"""


@pytest.mark.slow
def test_a_target_that_accepts_breaks_is_planned_and_passes(tmp_path: Path, command: Callable[..., Answer]) -> None:
    (tmp_path / "graphsafe.toml").write_text(CONFIGURED)
    (tmp_path / "step.py").write_text(STEP)
    mixed = command("mixed")
    assert mixed.code == 0 and mixed.report is not None and mixed.report["verdict"] == "ready-with-breaks"
    # Nothing is planned where the step is ready.
    (tmp_path / "step.py").write_text(STEP.replace(".item()", ""))
    ready = command("mixed")
    assert ready.code == 0 and ready.report is not None
    assert (ready.report["verdict"], ready.report["plan"]) == ("ready", None)


@pytest.mark.slow
def test_only_the_target_that_accepts_breaks_is_planned(tmp_path: Path, command: Callable[..., Answer]) -> None:
    (tmp_path / "graphsafe.toml").write_text(CONFIGURED)
    (tmp_path / "step.py").write_text(STEP)
    every = command("--all")
    assert every.code == 1 and every.report is not None
    verdicts = [(report["verdict"], report["plan"] is not None) for report in every.report["reports"]]
    assert verdicts == [("ready-with-breaks", True), ("not-ready", False)]
    # A configured target is meant by its name: its factory alone has none of its settings.
    alone = command("step.py:build", "--device", "sim")
    assert alone.code == 1 and alone.report is not None
    assert (alone.report["verdict"], alone.report["plan"]) == ("not-ready", None)


@pytest.mark.slow
def test_a_step_in_several_ranks_is_not_planned_and_the_report_says_so(
    tmp_path: Path, command: Callable[..., Answer]
) -> None:
    (tmp_path / "graphsafe.toml").write_text(CONFIGURED)
    (tmp_path / "step.py").write_text(STEP)
    answer = command("mixed", "--nproc", "2")
    assert answer.code == 1 and answer.report is not None
    assert answer.report["verdict"] == "not-ready"
    limits = {limit["why"] for limit in answer.report["limits"] if limit["kind"] == "plan"}
    assert limits == {"nothing was planned: it runs in several ranks"}
