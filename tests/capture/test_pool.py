"""Buckets captured in one pool: what they do to each other, and what rows behind the live requests do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphsafe.capture.child.buckets.padding import Rows, live_requests, rows_by_name
from graphsafe.capture.request import parse_bucket
from graphsafe.errors import RequestError

from .conftest import DEVICES, ROOT, TARGETS, Answer, Prove, Report, codes_of

pytestmark = pytest.mark.slow
SHARING = ROOT / "tests" / "gpu" / "buckets" / "targets.py"
NAMES = [
    "one_model",
    "own_model",
    "static_output",
    "planned_for_batch",
    "shared_history",
    "centred",
    "masked_mean",
    "multiplied_mask",
    "cache_slots",
    "kept_plan",
    "stale_pairs",
    "no_zero_pairs",
    "own_head",
    "own_head_and_scale",
]


@pytest.fixture(scope="module", params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def report(device: str, prove: Prove) -> Callable[[str], Report]:
    found = prove([f"{SHARING}:{name}" for name in NAMES], device, buckets={"batch": (2, 5)})
    return dict(zip(NAMES, found, strict=True)).__getitem__


def pool_of(report: Report) -> dict[str, Any]:
    pool = report["devices"][0]["pool"]
    assert pool is not None
    return dict(pool)


def padding_of(report: Report, batch: int) -> dict[str, Any]:
    (found,) = [one for one in pool_of(report)["padding"] if one["axes"]["batch"] == batch]
    return dict(found)


def test_the_largest_bucket_is_captured_first(report: Callable[[str], Report], device: str) -> None:
    pool = pool_of(report("one_model"))
    assert [bucket["axes"]["batch"] for bucket in pool["buckets"]] == [5, 2]
    assert pool["replays"] >= 6
    assert (pool["pool_bytes"] is None) == device.startswith("sim")
    if pool["pool_bytes"] is not None:
        assert pool["pool_bytes"] == sum(bucket["pool_bytes"] for bucket in pool["buckets"])
        assert all(bucket["held"]["bytes"] >= bucket["held"]["kept"] > 0 for bucket in pool["buckets"])
        assert pool["saved_bytes"] == sum(bucket["alone_bytes"] for bucket in pool["buckets"]) - pool["pool_bytes"]


@pytest.mark.parametrize("name", ["one_model", "own_model", "own_head"])
def test_nothing_is_said_of_buckets_that_leave_each_other_alone(name: str, report: Callable[[str], Report]) -> None:
    found = report(name)
    assert found["verdict"] == "ready"
    assert found["findings"] == []
    assert pool_of(found)["status"] == "pass"


def test_an_output_that_another_bucket_overwrites(report: Callable[[str], Report]) -> None:
    found = report("static_output")
    assert found["verdict"] == "ready"
    assert codes_of(found) == ["GS706"]
    assert {one["axes"]["batch"] for one in pool_of(found)["overwritten"] if one["static"]} == {2, 5}


def test_a_plan_that_another_bucket_replaces_makes_replays_wrong(report: Callable[[str], Report]) -> None:
    found = report("planned_for_batch")
    assert [bucket["verdict"] for bucket in found["devices"][0]["buckets"]] == ["ready", "ready"]
    assert found["verdict"] == "not-ready"
    assert codes_of(found, "error") == ["GS704"]
    assert pool_of(found)["shared"] == ["plan"]


def test_state_that_is_shared_by_design_is_no_fault(report: Callable[[str], Report]) -> None:
    found = report("shared_history")
    assert found["verdict"] == "ready"
    assert pool_of(found)["depends_on_order"] == ["batch=2", "batch=5"]
    assert codes_of(found, "error") == []


def test_rows_behind_the_live_ones_that_no_filling_keeps_out(report: Callable[[str], Report]) -> None:
    found = report("centred")
    assert found["verdict"] == "not-ready"
    assert codes_of(found, "error") == ["GS708"]
    padding = padding_of(found, 5)
    assert padding["live"] == 3
    assert padding["follows"] == ["output"]
    assert padding["wrong"] == {"zeros": ["output"], "dummy": ["output"], "stale": ["output"]}


@pytest.mark.parametrize(("name", "fill"), [("masked_mean", "zeros"), ("cache_slots", "dummy")])
def test_padding_that_has_to_be_filled_is_a_note(name: str, fill: str, report: Callable[[str], Report]) -> None:
    found = report(name)
    assert found["verdict"] == "ready"
    assert codes_of(found) == ["GS708"]
    assert codes_of(found, "note") == ["GS708"]
    padding = padding_of(found, 5)
    assert padding["wrong"]["stale"]
    assert padding["wrong"][fill] == []


def test_integers_that_no_live_row_has_are_told(report: Callable[[str], Report]) -> None:
    found = report("stale_pairs")
    assert found["verdict"] == "ready" and codes_of(found, "note") == ["GS708"]
    assert any("with integers that no live row has" in finding["why"] for finding in found["findings"])


def test_a_replay_that_fails_with_padding_of_zeros_is_not_ready(report: Callable[[str], Report]) -> None:
    found = report("no_zero_pairs")
    assert found["verdict"] == "inconclusive" and pool_of(found)["status"] == "crashed"
    assert "a replay with fewer requests failed: zeros: " in pool_of(found)["reason"]


def test_nan_behind_the_live_rows(report: Callable[[str], Report]) -> None:
    assert padding_of(report("masked_mean"), 5)["nan"] == []
    assert padding_of(report("multiplied_mask"), 5)["nan"] == ["output"]


def test_rows_are_told_from_two_shapes() -> None:
    ours = {"x": [8, 4], "flat": [16], "mask": [8, 8], "weight": [4, 4], "offsets": [9], "time": [3, 8]}
    theirs = {"x": [2, 4], "flat": [4], "mask": [2, 2], "weight": [4, 4], "offsets": [3], "time": [3, 2]}
    assert rows_by_name(ours, theirs, 8, 2) == {"x": Rows(0, 1), "flat": Rows(0, 2), "time": Rows(1, 1)}


def test_a_bucket_is_used_for_what_the_smaller_one_does_not_take() -> None:
    buckets = [{"batch": batch, "q_len": 1} for batch in (1, 2, 4, 8)] + [{"batch": 4, "q_len": 2}]
    assert [live_requests(axes, buckets) for axes in buckets] == [None, None, 3, 5, 1]


def test_a_sample_is_proven_and_all_are_captured(prove: Prove) -> None:
    target = f"{SHARING}:one_model"
    (found,) = prove([target], "sim:0", buckets={"batch": (1, 2, 3, 4)}, sample=2)
    assert [bucket["axes"] for bucket in found["devices"][0]["buckets"]] == [{"batch": 1}, {"batch": 4}]
    assert [bucket["axes"]["batch"] for bucket in pool_of(found)["buckets"]] == [4, 3, 2, 1]
    assert found["verdict"] == "ready"
    assert [limit["what"] for limit in found["limits"] if limit["kind"] == "sampled"] == ["batch=2 and batch=3"]


def test_values_of_an_axis_given_several_times_are_joined_and_each_is_proven_once(
    command: Callable[..., Answer],
) -> None:
    axes = ("--bucket", "batch=1", "--bucket", "batch=2,2")
    answer = command(f"{SHARING}:{NAMES[0]}", "--device", "sim", *axes)
    assert answer.report is not None
    buckets = answer.report["devices"][0]["buckets"]
    assert [bucket["axes"] for bucket in buckets] == [{"batch": 1}, {"batch": 2}]


def test_a_bucket_that_cannot_be_built_does_not_end_the_others(prove: Prove) -> None:
    target = f"{TARGETS / 'declaring.py'}:limited"
    (found,) = prove([target], "sim:0", buckets={"batch": (2,), "q_len": (1, 3, 2)}, sample=2)
    assert {bucket["axes"]["q_len"] for bucket in pool_of(found)["buckets"]} == {1, 2}


def test_ranges_of_bucket_values() -> None:
    assert parse_bucket("batch=1,2,8..32:8") == ("batch", (1, 2, 8, 16, 24, 32))
    assert parse_bucket("batch=1..3") == ("batch", (1, 2, 3))
    for wrong in ("batch=3..1", "batch=1..9:0", "batch=1..100000"):
        with pytest.raises(RequestError):
            parse_bucket(wrong)


@pytest.mark.parametrize("name", ["kept_plan", "own_head_and_scale"])
def test_a_plan_that_another_bucket_left_behind_is_not_ready(name: str, report: Callable[[str], Report]) -> None:
    """Each bucket alone is right, in a process of its own; an engine builds them in one."""
    found = report(name)
    assert found["verdict"] == "not-ready"
    assert {"axes": {"batch": 2}, "after": {"batch": 5}, "outputs": ["output"]} in pool_of(found)["different"]


def test_what_the_steps_of_another_bucket_left_behind(device: str, prove: Prove) -> None:
    names = ("memoised", "memoised_by_batch", "shared_cache")
    found = prove([f"{TARGETS / 'pools.py'}:build_{name}" for name in names], device, buckets={"batch": (2, 5)})
    assert [report["verdict"] for report in found] == ["not-ready", "ready", "ready"]
    # All buckets are built before the first step, so that the last one's number serves both.
    assert [one["axes"] for one in pool_of(found[0])["different"]] == [{"batch": 5}]
