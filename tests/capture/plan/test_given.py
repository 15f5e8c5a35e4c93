"""Targets that use CUDA graphs already: their marks are held against the plan, their graphs against the plain step."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import pytest

from graphsafe.capture.answers.build import Built
from graphsafe.capture.child.compiled import read_log
from graphsafe.capture.child.own_graphs import plain
from graphsafe.capture.parent.findings import findings_of
from graphsafe.capture.parent.probes import DeviceAnswers
from graphsafe.capture.plan.parent.planning import compiled_text
from graphsafe.capture.shared.answers import Answers, written
from graphsafe.report.model import CallSite, Plan
from graphsafe.report.probes import Probes
from graphsafe.report.probes.step import Compiled, Left, Step
from graphsafe.rulebook.book import load_rulebook

from ..conftest import DEVICES, TARGETS, Prove, Report

pytestmark = [pytest.mark.child, pytest.mark.slow]

FILE = TARGETS / "given.py"
LINES = [line.strip() for line in FILE.read_text(encoding="utf-8").splitlines()]
MARKED = ["all_marked", "attention_unmarked", "too_much_marked", "whole"]
GRAPHED = ["graphed", "graphed_wrongly", "captured_by_hand"]
needs_package = pytest.mark.skipif(
    importlib.util.find_spec("breakable_cuda_graphs") is None, reason="needs breakable-cuda-graphs"
)


@pytest.fixture(scope="module", params=DEVICES)
def marked(request: pytest.FixtureRequest, prove: Prove) -> dict[str, Report]:
    found = prove([f"{FILE}:{name}" for name in MARKED], request.param, plan=True)
    return dict(zip(MARKED, found, strict=True))


@pytest.fixture(scope="module", params=DEVICES)
def graphed(request: pytest.FixtureRequest, prove: Prove) -> dict[str, Report]:
    found = prove([f"{FILE}:{name}" for name in GRAPHED], request.param, plan=True)
    return dict(zip(GRAPHED, found, strict=True))


def said(report: Report, code: str) -> list[tuple[str, str]]:
    found: list[dict[str, Any]] = [finding for finding in report["findings"] if finding["code"] == code]
    return [(LINES[finding["location"]["line"] - 1], finding["message"]) for finding in found]


@needs_package
def test_marks_that_are_right_are_left_alone(marked: dict[str, Report]) -> None:
    report = marked["all_marked"]
    assert report["verdict"] == "ready-with-breaks"
    assert said(report, "GS611") == said(report, "GS612") == []


@needs_package
def test_an_attention_of_varying_length_that_was_not_marked_is_named(marked: dict[str, Report]) -> None:
    ((line, message),) = said(marked["attention_unmarked"], "GS611")
    assert line.startswith("mixed.copy_(torch.softmax(query @ self.keys.T") and "has to run eagerly" in message
    assert said(marked["attention_unmarked"], "GS612") == []


@needs_package
@pytest.mark.parametrize(("name", "function"), [("too_much_marked", "project_marked"), ("whole", "scale")])
def test_a_mark_that_is_not_needed_is_a_note(name: str, function: str, marked: dict[str, Report]) -> None:
    ((_, message),) = said(marked[name], "GS612")
    assert function in message and said(marked[name], "GS611") == []


def test_a_graphed_callable_that_is_right_is_left_alone(graphed: dict[str, Report]) -> None:
    plan = graphed["graphed"]["plan"]
    assert plan["verified"] and plan["reason"] == "of the step without its own graphs"
    assert said(graphed["graphed"], "GS611") == said(graphed["graphed"], "GS704") == []


def test_a_plan_without_the_targets_own_graphs_does_not_decide_about_the_target(graphed: dict[str, Report]) -> None:
    assert graphed["graphed"]["verdict"] == "not-ready"


def test_a_capture_that_failed_because_the_step_replays_graphs_of_its_own_says_so(graphed: dict[str, Report]) -> None:
    ((line, message),) = said(graphed["graphed"], "GS607")
    assert "self.linear" in line or "(" in line
    assert (
        message
        == "the step cannot be captured: it replays CUDA graphs of its own, which PyTorch refuses during a capture"
    )


def test_a_graphed_callable_that_froze_something_gives_other_outputs_and_the_line_is_named(
    graphed: dict[str, Report],
) -> None:
    report = graphed["graphed_wrongly"]
    assert ("self.calls += 1", "this has to run eagerly, but is not marked as a break: `expert.calls`") in [
        (line, message.partition(" changes")[0]) for line, message in said(report, "GS611")
    ]
    ((line, message),) = said(report, "GS704")
    assert line == "hidden = hidden + self.expert(hidden)" and message.endswith(": output")


def test_graphs_that_cannot_be_left_out_are_not_planned_around(graphed: dict[str, Report]) -> None:
    plan = graphed["captured_by_hand"]["plan"]
    assert not plan["verified"] and "replays graphs of its own" in plan["reason"]
    assert graphed["captured_by_hand"]["verdict"] != "ready"


STACK = """  File "{file}", line 12, in forward
    x.add_(1)
"""


@pytest.mark.parametrize(
    ("message", "part", "reason"),
    [
        (
            "skipping cudagraphs due to mutated inputs (1 instances). Found from : \n" + STACK,
            False,
            "mutated inputs (1 instances)",
        ),
        ("skipping cudagraphs due to cpu device (arg1_1). Found from : \n" + STACK, False, "cpu device (arg1_1)"),
        (
            "disabling cudagraphs due to incompatible op aten.index_put_.default Found from " + STACK,
            False,
            "incompatible op aten.index_put_.default",
        ),
        (
            "skipping cudagraph due to function 3 exceeding max re-recording limit (=128) on cudagraph node None due "
            "to static input data pointer changed.\n" + STACK,
            False,
            "function 3 exceeding max re-recording limit (=128) on cudagraph node None due to static input data "
            "pointer changed.",
        ),
        ("cudagraph partition due to DeviceCopy ops. Found from : \n" + STACK, True, "DeviceCopy ops"),
    ],
)
def test_what_inductor_left_out_has_a_reason_and_a_line(message: str, part: bool, reason: str) -> None:
    (left,) = read_log([message.format(file=FILE)]).left
    assert (left.part, left.reason.startswith(reason.rstrip("."))) == (part, True)
    if "Found from" in message:
        assert [(frame.path, frame.line, frame.function) for frame in left.frames] == [(str(FILE), 12, "forward")]


def test_partitions_of_newer_versions_are_told_line_by_line() -> None:
    messages = [
        "Created 3 graph partitions: 2 cudagraphable, 1 non-cudagraphable",
        "  Partition 1: 1 nodes, non-cudagraphable, inputs=1, outputs=1",
        "    op4: reason=cpu ops, ir=ComputedBuffer, fx=aten.add.Tensor(arg0_1, 1)",
        f'           File "{FILE}", line 20, in forward',
        "             y = host + 1",
        "  Partition 2: 1 nodes, cudagraphable, inputs=1, outputs=1",
    ]
    (left,) = read_log(messages).left
    assert (left.part, left.reason, left.frames[-1].line) == (True, "cpu ops", 20)


def test_new_recordings_and_sizes_are_told_once() -> None:
    messages = [
        "[0/0] Re-recording function=f, mode=FORWARD, reason=static input data pointer changed.",
        "[0/0] Re-recording function=f, mode=FORWARD, reason=static input data pointer changed.",
        "recording cudagraph tree for symint key 4",
        "Recording cudagraph tree for symint key 8",
    ]
    answer = read_log(messages)
    assert answer.recorded_again == ("static input data pointer changed.",) and answer.sizes == ("4", "8")


COMPILED = Compiled(
    kernels=8,
    from_graphs=2,
    left=(
        Left(True, "cpu ops", (CallSite(str(FILE), 20, "forward"),)),
        Left(False, "multiple devices: cpu, cuda"),
    ),
    recorded_again=(),
    sizes=("4", "8"),
    captures_after_warmup=2,
    counters={"cudagraph_skips": 1, "cudagraph_partitions": 3},
)


def test_what_inductor_left_out_is_a_finding_each_and_one_sentence_in_sum() -> None:
    answers = Answers(written(Built(CallSite(str(FILE), 60, "Layer.forward"))))
    seen = DeviceAnswers("cuda:0", "capture", "not-ready", Probes(step=Step("pass", compiled=COMPILED)), answers)
    findings, limits = findings_of(seen, load_rulebook())
    assert limits == []
    found = [(one.code, one.level, one.location.line, one.message.rpartition(": ")[2]) for one in findings]
    assert found == [("GS613", "error", 20, "cpu ops"), ("GS613", "error", 60, "cpu, cuda")]
    sentence = compiled_text(COMPILED, Plan(coverage=1.0, verified=True))
    assert sentence.startswith("25% of the compiled step's 8 kernels ran from CUDA graphs, Inductor skipped 1 graph,")
    assert sentence.endswith("a plan of the plain step covers 100% of its operations, verified")


def test_what_is_left_out_comes_back_as_it_was_given() -> None:
    import torch

    def double(x: Any) -> Any:
        return x * 2

    bound = torch.cuda.make_graphed_callables  # as a module that was imported before has it
    with plain.without_own_graphs():
        assert bound(double, (torch.ones(1),)) is double
        assert bound((double, double), ((torch.ones(1),), (torch.ones(1),))) == (double, double)
        assert plain.graphed == [double] * 3


def test_compiled_functions_run_as_they_were_written() -> None:
    script = (
        "import torch\n"
        "from graphsafe.capture.child.own_graphs import plain\n"
        "compiled = []\n"
        "def backend(graph, inputs):\n"
        "    compiled.append(graph)\n"
        "    return graph.forward\n"
        "@torch.compile(backend=backend)\n"
        "def double(x):\n"
        "    return x * 2\n"
        "double(torch.ones(1))\n"
        "plain.run_uncompiled()\n"
        "print(len(compiled), double(torch.ones(3)).tolist(), len(compiled))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[0] == "1 [2.0, 2.0, 2.0] 1", done.stderr
