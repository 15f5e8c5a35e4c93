"""A refresh may drop gradients before each step, as PyTorch's documentation advises. The step is then recorded without
gradients too."""

from __future__ import annotations

import pytest

from .conftest import DEVICES, TARGETS, Prove, Reports, marked, probes_of

SOUND = ("dropped", "channels_last")
OWN = {
    # target: code -> the level, if it is known, and the beginning of the line of its finding
    "own_dropped": {"GS702": 'error: count["step"] += 1'},
    "own_carried": {"GS702": 'count["step"] += 1', "GS703": "model.weight.grad = gradient("},
    "own_handed_on": {"GS703": 'error: weight.data = kept["copy"]'},
    "own_scheduled": {"GS702": "error: schedule.step()", "GS703": "warning: training.model.register_forward_hook("},
}
FAULTY = ("optimized_by_loop", "without_optimizer", "logged", "kept", "not_always", "not_later")
SLOW = (
    *("channels_last", "optimized_by_loop", "without_optimizer", "logged", "not_always", "not_later"),
    *("own_carried", "own_handed_on"),
)


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


@pytest.mark.parametrize("name", marked(OWN, SLOW))
def test_changed_state_is_reported_at_the_line_that_changes_it_if_the_step_reads_it(
    reports: Reports, name: str
) -> None:
    lines = (TARGETS / "gradients.py").read_text(encoding="utf-8").splitlines()
    found = {
        one["code"]: f"{one['level']}: {lines[one['location']['line'] - 1].strip()}"
        for one in reports[name]["findings"]
        if one["code"] in ("GS702", "GS703")
    }
    assert found.keys() == OWN[name].keys()
    assert all(line in found[code] for code, line in OWN[name].items())
    assert not [one for one in reports[name]["limits"] if one["kind"] == "no-line"]


@pytest.mark.slow
def test_a_rate_that_a_schedule_changes_has_its_own_repair(reports: Reports) -> None:
    found = {
        name: next(one for one in reports[name]["findings"] if one["code"] == "GS702")
        for name in OWN
        if "GS702" in OWN[name]
    }
    assert {name: "make the rate a device tensor" in one["fix"] for name, one in found.items()} == {
        "own_dropped": False,
        "own_carried": False,
        "own_scheduled": True,
    }
    assert " Here " in found["own_scheduled"]["why"]  # what the capture froze


@pytest.mark.slow
def test_a_tensor_that_no_step_reads_is_not_called_the_cause(reports: Reports) -> None:
    carried, noted = (
        next(one for one in reports[name]["findings"] if one["code"] == "GS703")
        for name in ("own_carried", "own_scheduled")
    )
    assert "noted" in noted["message"] and "memory of the graph" in noted["message"]
    assert "still reads" in carried["message"]


@pytest.mark.slow
def test_a_long_run_compares_with_eager_steps_without_gradients(prove: Prove) -> None:
    (report,) = prove([f"{TARGETS}/gradients.py:build_dropped"], "sim:0", replays=40)
    assert report["verdict"] == "ready"
    assert probes_of(report)["memory"]["growth"]["drifts"] == []
