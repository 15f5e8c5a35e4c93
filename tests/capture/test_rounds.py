"""A refresh may do something else only in a later round: replays are compared with eager steps there, too."""

from __future__ import annotations

import pytest

from .conftest import DEVICES, ON_GPU, TARGETS, Prove, Reports, codes_of, marked, probes_of

STALE = ("pages_counted_by_step", "hooked", "worn_out", "guarded_upkeep", "step_count_copied")
SOUND = (
    "pages_counted_by_loop",
    "history",
    "few_batches",
    "resized",
    "proxied",
    "gathered",
    "timed",
    "penalised",
    "mask_kept",
    "reconnected",
    "count_asserted",
)
SLOW = (
    *("hooked", "guarded_upkeep", "pages_counted_by_loop", "resized", "proxied", "gathered"),
    *("step_count_copied", "history", "few_batches", "timed", "penalised", "count_asserted"),
    "mask_kept",
)


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    names = (
        *STALE,
        *SOUND,
        "mask_evicted",
        "gathered_for_nothing",
        "number_of_thread",
        "penalised_later",
        "timed_by_scale",
    )
    return Reports(prove, f"{TARGETS}/rounds.py:build_", request.param, names, SLOW)


@pytest.mark.parametrize("name", marked(STALE, SLOW))
def test_a_round_that_only_eager_steps_reach_is_not_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"
    assert codes_of(reports[name], "error") == ["GS704"]


def test_the_report_names_what_differs_in_which_round(reports: Reports) -> None:
    checks = probes_of(reports["pages_counted_by_step"])["replay"]["checks"]
    different = {check["name"]: check["replay"] for check in checks if check["result"] == "different"}
    assert different.keys() >= {"output in a later round", "state table in a later round"}
    assert all(round_ > 3 for round_ in different.values())


def test_a_refresh_that_fails_only_after_replays_says_so(reports: Reports) -> None:
    error = probes_of(reports["worn_out"])["replay"]["first_error"]
    assert error["message"].startswith("after replays refresh failed: IndexError")


@pytest.mark.parametrize("name", marked(SOUND, SLOW))
def test_a_refresh_that_acts_alike_after_replays_is_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "ready"
    assert (probes_of(reports[name])["replay"]["rounds"] or 0) >= 8


@pytest.mark.parametrize("name", ["penalised_later", "timed_by_scale"])
def test_a_number_that_changes_is_found_beside_a_row_that_is_cleared_and_a_clock(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"
    assert codes_of(reports[name], "error") == ["GS702"]


def test_memory_that_is_freed_between_replays_is_still_read(reports: Reports) -> None:
    report = reports["mask_evicted"]
    assert report["verdict"] == "not-ready"
    if report["devices"][0]["device"].startswith("sim"):  # on a GPU, earlier rounds read memory that was used again
        assert "GS711" in codes_of(report, "error")


def test_values_of_a_thread_that_differ_prove_nothing(reports: Reports) -> None:
    assert reports["number_of_thread"]["verdict"] == "inconclusive"
    assert "threads run beside the step" in probes_of(reports["number_of_thread"])["replay"]["reason"]


def test_a_refresh_whose_values_change_no_result_is_inconclusive(reports: Reports) -> None:
    assert reports["gathered_for_nothing"]["verdict"] == "inconclusive"
    assert probes_of(reports["gathered_for_nothing"])["replay"]["varied"] == 0


@pytest.mark.slow
def test_without_a_refresh_there_are_no_rounds(prove: Prove) -> None:
    (report,) = prove([f"{TARGETS}/later.py:build_logged"], "sim:0")
    assert probes_of(report)["replay"]["rounds"] is None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "verdict"), [("locked", "ready"), ("locked_and_scaled", "not-ready")])
def test_builds_that_need_the_same_lock_run_one_after_the_other(prove: Prove, name: str, verdict: str) -> None:
    (report,) = prove([f"{TARGETS}/rounds.py:build_{name}"], "sim:0")
    assert report["verdict"] == verdict
    (limit,) = [limit for limit in report["limits"] if limit["kind"] == "sequential"]
    assert limit["why"].startswith("beside another build, the factory failed: BlockingIOError")


def test_what_a_refresh_does_in_the_150th_round_counts(prove: Prove) -> None:
    (report,) = prove([f"{TARGETS}/rounds.py:build_noted_late"], "sim:0")
    assert (report["verdict"], codes_of(report, "error")) == ("not-ready", ["GS707"])
    assert probes_of(report)["replay"]["rounds"] == 256
    (found,) = [one for one in report["findings"] if one["code"] == "GS707"]
    line = (TARGETS / "rounds.py").read_text(encoding="utf-8").splitlines()[found["location"]["line"] - 1]
    assert line.strip() == "_note.set(_note.get().clone())"


@pytest.mark.slow
def test_refreshes_that_no_time_is_left_for_run_without_steps(prove: Prove) -> None:
    (report,) = prove([f"{TARGETS}/rounds.py:build_slow_with_late_scale"], "sim:0")
    assert (report["verdict"], codes_of(report, "error")) == ("not-ready", ["GS702"])
    assert probes_of(report)["replay"]["rounds"] < 130
    assert probes_of(report)["replay"]["status"] == "fail"


@pytest.mark.parametrize("device", [ON_GPU])
def test_on_a_gpu_rounds_go_on_from_each_other_and_the_host_runs_ahead(prove: Prove, device: str) -> None:
    names = ("written_behind", "event_left_out", "stream_waited", "doubled_by_position")
    behind, event, waited, doubled = prove([f"{TARGETS}/rounds.py:build_{name}" for name in names], device)
    assert (behind["verdict"], codes_of(behind, "error")) == ("not-ready", ["GS704"])
    assert (event["verdict"], codes_of(event, "error")) == ("not-ready", ["GS714"])
    assert waited["verdict"] == "ready"
    assert (doubled["verdict"], codes_of(doubled, "error")) == ("not-ready", ["GS707"])
