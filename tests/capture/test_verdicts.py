"""What a step is called, and why: the silent ways to be wrong, and the ways to prove nothing."""

from __future__ import annotations

import pytest

from .conftest import DEVICES, TARGETS, Prove, Reports, codes_of, marked, probes_of

EXPECTED = {
    # target: (verdict, codes of its errors)
    "host_counter": ("not-ready", ["GS702"]),
    "device_counter": ("ready", []),
    "rebound": ("not-ready", ["GS703"]),
    "swapped": ("not-ready", ["GS703"]),
    "concatenated": ("not-ready", ["GS402"]),
    "plan": ("not-ready", ["GS701"]),
    "first_shape": ("ready", []),
    "constant_inputs": ("ready", []),
    "infinite_inputs": ("inconclusive", []),
    "zero_head": ("ready", []),
    "made_in_inference_mode": ("ready", []),
    "recurrent": ("ready", []),
    "draws_a_token": ("ready", []),
    "ignores_inputs": ("inconclusive", []),
    "nothing_on_the_device": ("not-ready", ["GS602"]),
    "unstable": ("not-ready", ["GS702"]),
    "unseeded": ("ready", []),
    "dropout": ("ready", []),
    "private_generator": ("not-ready", ["GS502"]),
    "bad_integers": ("ready", []),
    "guarded_meter": ("ready", []),
    "capture_branch": ("not-ready", None),
    "host_random": ("not-ready", None),
    "global_plan": ("not-ready", ["GS701"]),
    "closure_plan": ("not-ready", ["GS701"]),
    "class_plan": ("not-ready", ["GS701"]),
    "plan_of_a_named_class": ("not-ready", ["GS701"]),
    "plan_on_a_weight": ("not-ready", ["GS701"]),
    "plan_on_a_function": ("not-ready", ["GS701"]),
    "plan_of_a_thread": ("not-ready", ["GS701"]),
    "plan_in_a_queue": ("not-ready", ["GS701"]),
    "plan_in_an_iterator": ("not-ready", ["GS701"]),
    "plan_in_a_context": ("not-ready", ["GS701"]),
    "plan_in_a_hook": ("not-ready", ["GS701"]),
    "plan_of_a_batch": ("not-ready", ["GS701"]),
    "buffer_filled_by_the_first_step": ("not-ready", ["GS701"]),
    "ring_of_buffers": ("ready", []),
    "memo_by_address": ("ready", []),
    "sized_by_the_first_step": ("ready", []),
    "reseeded": ("not-ready", ["GS503"]),
    "bound_anew_by_the_refresh": ("not-ready", ["GS707"]),
    "read_off_another_stream": ("not-ready", ["GS604"]),
    "stubborn": ("ready", []),
    "momentum": ("ready", []),
    "escape": ("not-ready", ["GS604"]),
    "unjoined": ("not-ready", ["GS603"]),
    "joined_but_never_forked": ("not-ready", ["GS603"]),
    "waits_for_the_default_stream": ("not-ready", ["GS604"]),
    "swallowed": ("not-ready", ["GS101"]),
    "writes_its_input": ("ready", []),
    "fills_its_input": ("inconclusive", []),
    "returns_a_count": ("not-ready", ["GS702"]),
    "returns_a_draw_beside_a_count": ("not-ready", ["GS704"]),
    "trained_through_products": ("not-ready", None),
    "trained_through_one_product": ("not-ready", None),
    "product_of_one_row": ("ready", []),
    "driven_by_a_generator": ("not-ready", ["GS702"]),
}
SLOW = (
    *("global_plan", "closure_plan", "class_plan", "plan_of_a_named_class", "plan_on_a_weight", "plan_on_a_function"),
    *("plan_of_a_thread", "plan_in_a_queue", "plan_in_an_iterator", "plan_in_a_context", "plan_in_a_hook"),
    *("zero_head", "recurrent", "unseeded", "memo_by_address", "sized_by_the_first_step", "stubborn", "momentum"),
    *("made_in_inference_mode", "constant_inputs", "ring_of_buffers", "unstable", "escape"),
    *("concatenated", "draws_a_token", "guarded_meter", "plan_of_a_batch", "buffer_filled_by_the_first_step"),
)


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    return Reports(prove, f"{TARGETS / 'silent.py'}:", request.param, EXPECTED, SLOW)


@pytest.mark.parametrize("name", marked(EXPECTED, SLOW))
def test_the_verdict_is_true(name: str, reports: Reports) -> None:
    verdict, codes = EXPECTED[name]
    assert reports[name]["verdict"] == verdict
    if codes is not None:
        assert codes_of(reports[name], "error") == codes
    else:
        assert codes_of(reports[name], "error")


@pytest.mark.parametrize("name", marked(EXPECTED, SLOW))
def test_every_finding_names_a_line_of_the_target(name: str, reports: Reports) -> None:
    for finding in reports[name]["findings"]:
        assert finding["location"]["path"].endswith("silent.py")
        assert finding["why"] and finding["fix"] and finding["fingerprint"]


def test_an_input_is_reported_where_the_refresh_rebinds_it(reports: Reports) -> None:
    (found,) = [one for one in reports["bound_anew_by_the_refresh"]["findings"] if one["code"] == "GS707"]
    line = (TARGETS / "silent.py").read_text(encoding="utf-8").splitlines()[found["location"]["line"] - 1]
    assert line.strip() == 'kept["x"] = torch.randn(4, 8, device=device)'
    assert found["location"]["function"].endswith("refresh")


def test_a_warmed_plan_passes_capture_and_replay_and_fails_its_first_step(reports: Reports) -> None:
    probes = probes_of(reports["plan"])
    assert (probes["capture"]["status"], probes["replay"]["status"]) == ("pass", "pass")
    assert all(check["equal"] for check in probes["replay"]["checks"])
    assert probes["replay"]["first_step"] == "fail"


def test_what_is_lazy_by_shape_alone_is_no_fault(reports: Reports) -> None:
    assert probes_of(reports["first_shape"])["replay"]["first_step"] in ("pass", "skipped")
    assert "GS701" not in codes_of(reports["first_shape"], "error", "warning")


def test_random_numbers_of_replays_are_those_of_eager_steps(reports: Reports) -> None:
    assert probes_of(reports["dropout"])["replay"]["rng_law"] == "pass"
    assert probes_of(reports["device_counter"])["replay"]["rng_law"] == "skipped"


@pytest.mark.slow
def test_what_a_guard_keeps_out_of_captures_is_a_note(reports: Reports) -> None:
    for name in ("bad_integers", "guarded_meter"):
        assert codes_of(reports[name], "error", "warning") == []
        assert "GS101" in codes_of(reports[name], "note")


@pytest.mark.parametrize("name", [name for name, (verdict, _) in EXPECTED.items() if verdict == "inconclusive"])
def test_the_reason_of_an_inconclusive_verdict_is_a_limit(name: str, reports: Reports) -> None:
    told = [limit["why"] for limit in reports[name]["limits"] if limit["kind"] == "inconclusive"]
    assert any(why.startswith("no changed input changed the reference") for why in told)


def test_a_reason_that_another_limit_gives_is_not_repeated(reports: Reports) -> None:
    """Which inputs could not be varied is said once."""
    limits = reports["infinite_inputs"]["limits"]
    assert [limit for limit in limits if limit["kind"] == "not-varied"]
    assert not [limit for limit in limits if "could not be varied" in limit["why"]]


def test_inputs_that_could_not_be_varied_are_limits(reports: Reports) -> None:
    limits = [(limit["kind"], limit["what"]) for limit in reports["infinite_inputs"]["limits"]]
    assert ("not-varied", "args[0]") in limits


def test_a_failed_capture_says_its_first_error(reports: Reports) -> None:
    error = probes_of(reports["private_generator"])["capture"]["first_error"]
    assert "generator" in error["message"]
    assert error["place"].endswith("silent.py:158")


def test_the_simulated_device_names_backward_passes_that_count_zeros(prove: Prove) -> None:
    (report,) = prove([f"{TARGETS / 'silent.py'}:trained_through_products"], "sim:0")
    (found,) = [one for one in report["findings"] if one["level"] == "error"]
    line = (TARGETS / "silent.py").read_text(encoding="utf-8").splitlines()[found["location"]["line"] - 1]
    assert (found["code"], line.strip()) == ("GS106", "light.sum().backward()")


def test_a_buffer_of_the_first_step_is_not_allocated_in_every_step(prove: Prove) -> None:
    (report,) = prove([f"{TARGETS / 'silent.py'}:keeps_its_buffer"], "sim:0")
    assert (report["verdict"], codes_of(report, "error", "warning", "note")) == ("ready", [])
