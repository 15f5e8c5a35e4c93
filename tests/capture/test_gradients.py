"""A refresh may drop gradients before each step, as PyTorch's documentation advises. The step is then recorded without
gradients too."""

from __future__ import annotations

import pytest

from .conftest import DEVICES, TARGETS, Prove, Reports, marked, probes_of

SOUND = ("dropped", "channels_last")
OWN = ("own_dropped", "own_carried")
FAULTY = ("optimized_by_loop", "without_optimizer", "logged", "kept", "not_always", "not_later")
SLOW = ("channels_last", "optimized_by_loop", "without_optimizer", "logged", "not_always", "not_later")


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    return Reports(prove, f"{TARGETS}/gradients.py:build_", request.param, (*SOUND, *FAULTY, *OWN), SLOW)


@pytest.mark.parametrize("name", marked(SOUND, SLOW))
def test_gradients_that_only_the_step_uses_are_compared_where_replays_write_them(reports: Reports, name: str) -> None:
    probes = probes_of(reports[name])
    assert reports[name]["verdict"] == "ready"
    assert probes["twin"]["status"] == "pass"
    assert all(check["result"] != "different" for check in probes["replay"]["checks"])


@pytest.mark.parametrize("name", marked(FAULTY, SLOW))
def test_gradients_that_others_use_or_that_accumulate_are_not_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"


@pytest.mark.parametrize("name", OWN)
def test_replaced_gradients_are_reported_only_if_the_step_reads_the_old_ones(reports: Reports, name: str) -> None:
    found = {one["code"]: one["location"]["line"] for one in reports[name]["findings"]}
    lines = (TARGETS / "gradients.py").read_text(encoding="utf-8").splitlines()
    assert reports[name]["verdict"] == "not-ready"
    assert lines[found["GS702"] - 1].strip() == 'count["step"] += 1'
    assert ("GS703" in found) == (name == "own_carried")
    assert "GS703" not in found or "weight.grad = gradient(" in lines[found["GS703"] - 1]


@pytest.mark.slow
def test_a_long_run_compares_with_eager_steps_without_gradients(prove: Prove) -> None:
    (report,) = prove([f"{TARGETS}/gradients.py:build_dropped"], "sim:0", replays=40)
    assert report["verdict"] == "ready"
    assert probes_of(report)["memory"]["growth"]["drifts"] == []
