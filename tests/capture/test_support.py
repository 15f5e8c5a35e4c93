"""What buckets prove of a step's support for CUDA graphs, and what is made of a declaration that says otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from graphsafe.capture.parent.buckets.support import BucketResult, over_declared, proven_by, under_declared

from .conftest import DEVICES, TARGETS, Prove, Report

Q = "q_len"


def tried(**verdicts: str) -> list[BucketResult]:
    """`one="ready", mixed="not-ready"`: a bucket of two requests each."""
    lengths: dict[str, Any] = {"one": 1, "two": 2, "three": 3, "mixed": "mixed"}
    return [BucketResult({"batch": 2, Q: lengths[name]}, verdict) for name, verdict in verdicts.items()]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("buckets", "level", "longest"),
    [
        (tried(one="not-ready", two="ready"), "NEVER", None),
        (tried(one="ready", two="not-ready"), "UNIFORM_SINGLE_TOKEN_DECODE", 1),
        (tried(one="ready", two="ready", three="not-ready"), "UNIFORM_BATCH", 2),
        (tried(one="ready", two="ready", mixed="not-ready"), "UNIFORM_BATCH", 2),
        (tried(one="ready", two="ready", mixed="ready"), "ALWAYS", 2),
        (tried(one="ready", two="ready-with-breaks"), "UNIFORM_SINGLE_TOKEN_DECODE", 1),
        (tried(one="ready", two="inconclusive"), "UNIFORM_SINGLE_TOKEN_DECODE", 1),
        (tried(one="not-ready", mixed="ready"), "NEVER", None),
        ([BucketResult({"batch": 1}, "ready"), BucketResult({"batch": 8}, "ready")], "UNIFORM_SINGLE_TOKEN_DECODE", 1),
        ([BucketResult({"batch": 1}, "ready"), BucketResult({"batch": 8}, "not-ready")], "NEVER", None),
    ],
)
def test_levels(buckets: list[BucketResult], level: str, longest: int | None) -> None:
    proven = proven_by(buckets)
    assert proven is not None
    assert (proven.level, proven.max_query_len) == (level, longest)


def test_what_is_not_known_proves_nothing() -> None:
    assert proven_by(tried(one="inconclusive", two="ready")) is None
    assert proven_by([BucketResult({}, "ready")]) is None
    assert proven_by([BucketResult({"tokens": 4}, "not-ready")]) is None


def test_a_declaration_is_refuted_only_by_what_it_promises() -> None:
    mixed_fails = tried(one="ready", two="ready", mixed="not-ready")
    assert over_declared("UNIFORM_BATCH", mixed_fails) is None
    assert over_declared("ALWAYS", mixed_fails) == mixed_fails[2]
    two_fails = tried(one="ready", two="not-ready", three="inconclusive")
    assert over_declared("UNIFORM_BATCH", two_fails) == two_fails[1]
    assert over_declared("UNIFORM_SINGLE_TOKEN_DECODE", two_fails) is None
    prefill = [BucketResult({"tokens": 512}, "not-ready")]
    assert over_declared("UNIFORM_BATCH", prefill) is None
    assert over_declared("ALWAYS", prefill) == prefill[0]


def test_a_declaration_is_too_low_only_where_a_higher_level_is_proven() -> None:
    two_works = tried(one="ready", two="ready", three="not-ready")
    assert under_declared("UNIFORM_SINGLE_TOKEN_DECODE", two_works) == two_works[1]
    assert under_declared("UNIFORM_BATCH", two_works) is None
    assert under_declared("NEVER", tried(one="not-ready", two="ready")) is None
    assert under_declared("NEVER", tried(one="ready", two="not-ready")) is not None
    alone = [BucketResult({}, "ready")]
    assert under_declared("NEVER", alone) == alone[0]
    assert under_declared("UNIFORM_BATCH", alone) is None


@pytest.fixture(scope="module", params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def proven(prove: Prove, device: str, name: str, q_len: tuple[Any, ...], **options: Any) -> Report:
    return prove([f"{TARGETS / 'declaring.py'}:{name}"], device, buckets={"batch": (2,), Q: q_len}, **options)[0]


def line_of(mark: str) -> int:
    lines = (TARGETS / "declaring.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# line: {mark}"))


def mismatch(report: Report) -> dict[str, Any]:
    (found,) = [finding for finding in report["findings"] if finding["code"] == "GS801"]
    return dict(found)


@pytest.mark.slow
def test_declared_too_low_names_the_bucket_that_works(prove: Prove, device: str) -> None:
    report = proven(prove, device, "declared_decode", (1, 2))
    assert report["support"]["proven"]["level"] == "UNIFORM_BATCH"
    assert report["support"]["proven"]["max_query_len"] == 2
    assert report["support"]["declared"]["level"] == "UNIFORM_SINGLE_TOKEN_DECODE"
    found = mismatch(report)
    assert found["level"] == "warning"
    assert found["location"]["line"] == line_of("declared_decode")
    assert found["data"]["bucket"] == {"batch": 2, "q_len": 2}
    if device.startswith("sim"):
        assert found["data"]["times_as_fast"] is None
        assert "how much faster that is was not measured" in found["why"]
    else:
        assert found["data"]["times_as_fast"] == found["data"]["eager_ms"] / found["data"]["graph_ms"]
        assert f"{found['data']['times_as_fast']:.1f} times as fast as an eager step" in found["why"]


def test_declared_too_high_names_the_bucket_that_fails_and_its_line(prove: Prove, device: str) -> None:
    report = proven(prove, device, "declared_uniform", (1, 2))
    assert report["support"]["proven"]["level"] == "UNIFORM_SINGLE_TOKEN_DECODE"
    found = mismatch(report)
    assert found["level"] == "error"
    assert found["location"]["line"] == line_of("declared_uniform")
    assert found["data"]["bucket"] == {"batch": 2, "q_len": 2}
    assert found["data"]["line"] == line_of("reads")
    assert f"declaring.py:{line_of('reads')}" in found["why"]


def test_a_true_declaration_is_no_finding(prove: Prove) -> None:
    report = proven(prove, "sim:0", "declared_always", (1, 2, "mixed"))
    assert report["support"]["proven"]["level"] == report["support"]["declared"]["level"] == "ALWAYS"
    assert report["findings"] == []


def test_the_method_is_asked_with_the_configuration_that_the_builder_holds(prove: Prove) -> None:
    report = proven(prove, "sim:0", "declared_asked", (1,))
    assert report["support"]["declared"]["level"] == "UNIFORM_SINGLE_TOKEN_DECODE"
    assert report["support"]["declared"]["where"].endswith(f"declaring.py:{line_of('asked')}")


@pytest.mark.slow
def test_a_limit_that_raises_refutes_nothing_and_does_not_end_the_other_buckets(prove: Prove) -> None:
    report = proven(prove, "sim:0", "limited", (3, 1, 2))
    assert [bucket["verdict"] for bucket in report["devices"][0]["buckets"]] == ["inconclusive", "ready", "ready"]
    (wrong,) = [limit for limit in report["limits"] if limit["kind"] == "bad-request"]
    assert "batch=2 q_len=3" in wrong["what"] and "more than one speculative token" in wrong["why"]
    assert report["support"]["proven"] is not None
    assert [finding for finding in report["findings"] if finding["code"] == "GS801"] == []


@pytest.mark.slow
def test_the_configuration_may_declare(prove: Prove) -> None:
    report = proven(prove, "sim:0", "declared_uniform", (2,), declared="ALWAYS")
    assert report["support"]["declared"]["level"] == "ALWAYS"
    assert mismatch(report)["level"] == "error"
