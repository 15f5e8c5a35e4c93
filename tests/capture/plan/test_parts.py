"""Breaks that are a part of a statement, and breaks that need what stands around them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphsafe.capture.plan.child.rewrite import cut
from graphsafe.capture.plan.shared.parts import calls_on, edits
from graphsafe.capture.plan.shared.regions import functions_in

from ..conftest import TARGETS, Prove, Report
from .test_emit import SIM, Command, emit_limits, needs_package

FILE = TARGETS / "broken.py"
LEAST = {
    "helper_in_expression": 0.85,
    "one_expression": 0.95,
    "read_then_used": 0.9,
    "early_return": 0.9,
    "decided_by_helper": 0.9,
    "in_each_layer": 0.85,
}
"The share of operations that are captured: a break takes the operations around the one that breaks, and no more."
LINES = FILE.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def reports(prove: Prove) -> dict[str, Report]:
    names = [*LEAST, "used_up"]
    return dict(zip(names, prove([f"{FILE}:{name}" for name in names], "sim:0", plan=True), strict=True))


@pytest.mark.child
@pytest.mark.slow
@pytest.mark.parametrize("name", LEAST)
def test_a_break_is_a_part_of_a_statement(name: str, reports: dict[str, Report]) -> None:
    report = reports[name]
    assert report["verdict"] == "ready-with-breaks", report["plan"]["reason"]
    assert report["plan"]["coverage"] >= LEAST[name]


@pytest.mark.child
@pytest.mark.slow
def test_a_place_is_that_of_the_part_in_the_targets_own_file(reports: dict[str, Report]) -> None:
    places = [one["location"] for one in reports["one_expression"]["plan"]["segments"] if one["kind"] == "eager"]
    assert {Path(place["path"]).name for place in places} == {"broken.py"}
    texts = {LINES[place["line"] - 1][place["column"] - 1 : place["end_column"] - 1] for place in places}
    assert texts == {"torch.tensor([0.5, 2.0], device=x.device)"}
    assert "broken.py:" in reports["one_expression"]["plan"]["segments"][1]["reason"]


@pytest.mark.child
@pytest.mark.slow
def test_what_a_break_decides_once_is_a_guard_in_the_words_of_the_source(reports: dict[str, Report]) -> None:
    guards = reports["early_return"]["plan"]["guards"]
    assert "`torch.isinf(x).any()` of EarlyReturn.forward stays bool False" in guards
    guards = reports["decided_by_helper"]["plan"]["guards"]
    assert "the return value of is_too_large stays bool False" in guards
    for changing in ("helper_in_expression", "one_expression"):
        assert not any("return value" in guard for guard in reports[changing]["plan"]["guards"])


@pytest.mark.child
@pytest.mark.slow
def test_an_input_of_the_device_with_one_legal_value_is_told_and_forbids_nothing(reports: dict[str, Report]) -> None:
    assert "`args[1]` kept its values in all steps that were tried" in reports["read_then_used"]["plan"]["guards"]


@pytest.mark.child
@pytest.mark.slow
def test_an_iterator_that_a_break_uses_up_is_made_in_the_break(reports: dict[str, Report]) -> None:
    plan = reports["used_up"]["plan"]
    assert plan["verified"], plan["reason"]


@needs_package
@pytest.mark.child
@pytest.mark.slow
@pytest.mark.parametrize("name", ["private", "on_def_line", "nested", "inference"])
def test_emitted_code_stands_for_functions_of_all_kinds(name: str, tmp_path: Path, command: Command) -> None:
    report = command(f"{FILE}:{name}", *SIM, "--emit", "plan.py").report
    assert report is not None and emit_limits(report) == [] and report["plan"]["verified"]
    assert report["plan"]["coverage"] >= 0.9
    assert (tmp_path / "plan.py").exists()


CODE = """\
def step(self, x, limit):
    if check(limit()): return x
    y = a(x) * (b(x) if self.flag(x) else c(x)) + tail(x)  # both branches stay with what decides
    z: int = f(g(x)); w = h(f(x))
    return y + z + w

def short(x): return f(g(x)) + 1
"""


def test_statements_are_taken_apart_in_the_order_in_which_they_run(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(CODE, encoding="utf-8")
    lines = CODE.splitlines()
    written: list[str] = []
    for function in functions_in(str(file)):
        marked = {call for line in range(1, len(lines) + 1) for call in calls_on(function, line)}
        written += [line.text for edit in edits(function, marked, lines) for line in edit.lines]
    assert written == [
        "    part_1 = limit()",
        "    part_2 = bool(check(part_1))",
        "    if part_2:",
        "        return x",
        "    part_3 = a(x)",
        "    part_4 = b(x) if self.flag(x) else c(x)",
        "    part_5 = part_3 * part_4",
        "    part_6 = tail(x)",
        "    y = part_5 + part_6",
        "    part_7 = g(x)",
        "    z: int = f(part_7)",
        "    part_8 = f(x)",
        "    w = h(part_8)",
        "def short(x):",
        "    part_1 = g(x)",
        "    part_2 = f(part_1)",
        "    return part_2 + 1",
    ]


def test_private_names_of_a_class_can_be_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "private_names.py"
    file.write_text("""class Model:
    def __double(self, x):
        return x * 2

    def step(self, x, __more=3):
        __twice = self.__double(x)
        add = lambda __y: __y + __twice
        return add(1) + __more
""")
    monkeypatch.syspath_prepend(str(tmp_path))
    model = importlib.import_module("private_names").Model()
    step = next(one for one in functions_in(str(file)) if one.name == "Model.step")
    seen: list[tuple[str, ...]] = []

    def run(number: int, eager: Callable[[], Any], outputs: tuple[str, ...]) -> Any:
        seen.append(outputs)
        return eager()

    for statement in step.statements():
        with cut([step.region_at(statement)], run):
            assert model.step(5) == 14
    assert seen == [("_Model__twice",), ("add",), ()]
