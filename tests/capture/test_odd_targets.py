"""Targets whose objects raise, lie or never end, and tensors of every kind: each has its answer, and none breaks the
tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphsafe.capture.request import BAD_REQUEST

from .conftest import TARGETS, Answer, Prove, Report, codes_of

pytestmark = [pytest.mark.child, pytest.mark.slow]

ODD = TARGETS / "odd.py"
EXPECTED = {
    # target: (verdict, kinds of limits)
    "scripted": ("inconclusive", {"simulated"}),
    "traced": ("inconclusive", {"simulated"}),
    "holds_scripted": ("ready", set()),
    "scripts_when_built": ("ready", set()),
    "wrapped_state": ("ready", set()),
    "wrapped_input": ("ready", set()),
    "wrapped_output": ("ready", set()),
    "sealed_state": ("ready", {"not-compared"}),
    "sealed_output": ("inconclusive", {"inconclusive"}),
    "sparse_state": ("ready", set()),
    "nested_state": ("ready", set()),
    "odd_types": ("ready", set()),
    "odd_outputs": ("ready", set()),
    "shared_memory": ("ready", None),
    "windows": ("ready", set()),
    "hostile": ("ready", set()),
    "hostile_argument": ("ready", set()),
    "hostile_output": ("ready", set()),
    "untold_error": ("inconclusive", {BAD_REQUEST}),
    "untold_error_in_capture": ("not-ready", set()),
    "surrogate_error": ("inconclusive", {BAD_REQUEST}),
    "unwritable": ("ready", {"constant"}),
    "hostile_module_table": ("ready", set()),
    "contains_itself": ("ready", set()),
    "removed_folder": ("ready", set()),
    "removed_folder_and_error": ("inconclusive", {BAD_REQUEST}),
    "properties": ("ready", set()),
    "lazy_module": ("ready", None),
    "frozen_mapping": ("ready", set()),
    "made_of_text": ("not-ready", {"no-line"}),
    "compiled": ("ready", {"simulated"}),
}


@pytest.fixture(scope="module")
def reports(prove: Prove) -> dict[str, Report]:
    return dict(zip(EXPECTED, prove([f"{ODD}:{name}" for name in EXPECTED], "sim:0"), strict=True))


@pytest.mark.parametrize("name", EXPECTED)
def test_each_has_its_answer(name: str, reports: dict[str, Report]) -> None:
    verdict, kinds = EXPECTED[name]
    report = reports[name]
    assert report["verdict"] == verdict, report["limits"]
    if kinds is not None:
        assert {limit["kind"] for limit in report["limits"]} == kinds
    assert not any(limit["kind"] == "internal" for limit in report["limits"])


def test_what_makes_a_verdict_inconclusive_has_its_line(reports: dict[str, Report]) -> None:
    [limit] = reports["traced"]["limits"]
    assert limit["what"].startswith("TorchScript forward") and limit["why"]


def test_what_is_not_compared_has_its_path(reports: dict[str, Report]) -> None:
    [limit] = reports["sealed_state"]["limits"]
    assert limit["what"] == "weight" and "Sealed" in limit["why"]
    checks = reports["sealed_output"]["devices"][0]["probes"]["replay"]["checks"]
    assert {check["name"]: check["result"] for check in checks}["output[1]"] is None


def test_a_cause_without_a_line_is_told_once(reports: dict[str, Report]) -> None:
    [limit] = reports["made_of_text"]["limits"]
    assert limit["what"] == "GS101 scalar-read"


def test_a_compiled_step_runs_uncompiled_and_a_limit_says_so(reports: dict[str, Report]) -> None:
    [limit] = reports["compiled"]["limits"]
    assert limit["what"] == "torch.compile runs uncompiled on the simulated device"


def test_an_error_that_cannot_be_written_is_named(reports: dict[str, Report]) -> None:
    [limit] = reports["untold_error"]["limits"]
    assert "the step failed: Untold (" in limit["why"]
    assert codes_of(reports["untold_error_in_capture"], "error") == ["GS607"]


@pytest.mark.parametrize(("name", "code"), [("surrogate_error", 2), ("unwritable", 0), ("removed_folder_and_read", 1)])
def test_the_command_ends_as_it_should(name: str, code: int, command: Callable[..., Answer]) -> None:
    answer = command(f"{ODD}:{name}", "--device", "sim")
    assert answer.code == code, answer.err
    assert answer.report is not None


def test_more_state_than_can_be_walked(prove: Prove) -> None:
    [report] = prove([f"{ODD}:many_objects"], "sim:0")
    assert report["verdict"] == "ready"
    limits: dict[str, Any] = {limit["kind"]: limit for limit in report["limits"]}
    assert "more than" in limits["not-compared"]["why"]


def test_many_inputs(prove: Prove) -> None:
    [report] = prove([f"{ODD}:many_inputs"], "sim:0")
    assert report["verdict"] == "ready"
