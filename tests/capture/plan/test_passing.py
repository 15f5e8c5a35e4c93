"""Breaks that pass values to each other, and state of the host that captured code may not keep."""

from __future__ import annotations

import pytest

from ..conftest import TARGETS, Prove, Report

pytestmark = [pytest.mark.child, pytest.mark.slow]

FILE = TARGETS / "passing.py"
LINES = [line.strip() for line in FILE.read_text(encoding="utf-8").splitlines()]
NAMES = ["passing", "counted", "game", "accepted", "hardest"]


@pytest.fixture(scope="module")
def reports(prove: Prove) -> dict[str, Report]:
    found = prove([f"{FILE}:{name}" for name in NAMES], "sim:0", plan=True, check=True)
    return dict(zip(NAMES, found, strict=True))


def breaks(report: Report) -> dict[str, str]:
    """Each line of the file that belongs to a break -> the code of the break."""
    places = [(one["location"], one["code"]) for one in report["plan"]["segments"] if one["kind"] == "eager"]
    return {LINES[at - 1]: code for place, code in places for at in range(place["line"], place["end_line"] + 1)}


@pytest.mark.parametrize("name", NAMES)
def test_plan_and_code_give_what_eager_steps_give(name: str, reports: dict[str, Report]) -> None:
    report = reports[name]
    assert report["verdict"] == "ready-with-breaks", report["plan"]["reason"]
    assert [limit["why"] for limit in report["limits"] if limit["kind"] == "emit"] == []


def test_a_value_passes_from_the_line_that_makes_it_to_the_line_that_uses_it(reports: dict[str, Report]) -> None:
    eager = breaks(reports["passing"])
    assert "return int((scores > 0).sum())" in eager and "return hidden, number, len(chosen)" in eager
    for line in ("scores = torch.sigmoid(self.gate(x)) * 2 - 1", "hidden = torch.tanh(self.wide(x)) + 1"):
        assert line in LINES and line not in eager
    assert reports["passing"]["plan"]["coverage"] >= 0.9


def test_a_clock_and_a_draw_of_the_host_are_eager_though_they_decided_the_same_each_time(
    reports: dict[str, Report],
) -> None:
    eager = breaks(reports["passing"])
    assert eager["if random.random() > 2:"] == "GS504"
    assert eager["self.seconds = time.perf_counter()"] == "GS702"


def test_each_line_has_its_own_gain_and_the_gain_with_the_lines_before_it(reports: dict[str, Report]) -> None:
    plan = reports["counted"]["plan"]
    first, second = plan["fixes"]
    assert {LINES[fix["location"]["line"] - 1] for fix in (first, second)} == {
        "high = hidden.max().item()",
        "low = hidden.min().item()",
    }
    assert plan["coverage"] < first["coverage"] == first["together"] < 1.0
    assert plan["coverage"] < second["coverage"] < second["together"] == 1.0


def test_host_state_that_follows_the_inputs_is_set_and_read_eagerly(reports: dict[str, Report]) -> None:
    eager = breaks(reports["game"])
    assert "self.place = np.linspace(-1, 1, 4, dtype=np.float32)" in eager
    assert "return x, tuple(world.visited[0])" in eager


def test_of_a_branch_on_a_tensor_only_the_question_is_eager(reports: dict[str, Report]) -> None:
    places = [one["location"] for one in reports["accepted"]["plan"]["segments"] if one["kind"] == "eager"]
    assert [LINES[place["line"] - 1] for place in places] == ["if (hidden.cumsum(0).abs() + bound).isfinite().all():"]
    eager = [one["operations"] for one in reports["accepted"]["plan"]["segments"] if one["kind"] == "eager"]
    assert eager == [3]  # sigmoid, the copy, and the read


def test_with_an_eager_backward_its_forward_is_eager_and_nothing_else(reports: dict[str, Report]) -> None:
    eager = breaks(reports["hardest"])
    assert {
        "losses = (model(x) - y).square().squeeze(1)",
        "gradients = torch.autograd.grad(loss, list(model.parameters()))",
    } <= eager.keys()
    assert not {"x = (x - x.mean(0)) / (x.std(0) + 1)", "speed.mul_(0.9).add_(gradient)"} & eager.keys()
