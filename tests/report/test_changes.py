"""`graphsafe diff`: what changed between two reports, in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import samples

from graphsafe.cli import main
from graphsafe.report.changes import changes
from graphsafe.report.json_form import render_json
from graphsafe.report.model import Bucket, DeviceResult, Limit, Plan, Proven, Report, Support


def texts(before: Report, after: Report) -> dict[str, list[str]]:
    return {part.title: [change.text for change in part.changes] for part in changes([before], [after])}


def worse(before: Report, after: Report) -> list[str]:
    return [change.text for part in changes([before], [after]) for change in part.changes if change.worse]


def with_device(report: Report, **probes: Any) -> Report:
    device = DeviceResult("cuda:0", report.verdict or "ready", (), probes)
    return replace(report, devices=(device,))


def test_the_same_report_has_not_changed() -> None:
    for report in (samples.SCAN, samples.CAPTURE, samples.READY):
        assert changes([report], [replace(report, created="2027-01-01T00:00:00Z")]) == []


def test_a_finding_is_known_by_its_fingerprint_wherever_it_moves() -> None:
    first, *rest = samples.SCAN.findings
    moved = replace(first, location=replace(first.location, line=first.location.line + 40), device="cuda:1")
    assert changes([samples.SCAN], [replace(samples.SCAN, findings=(moved, *rest))]) == []


def test_new_and_gone_findings() -> None:
    first, *rest = samples.SCAN.findings
    fewer = replace(samples.SCAN, findings=tuple(rest))
    assert [text.split(":")[0] for text in texts(samples.SCAN, fewer)["findings"]] == ["gone"]
    assert worse(samples.SCAN, fewer) == []
    (text,) = worse(fewer, samples.SCAN)
    assert text.startswith(f"new: {first.code} {first.level} at {first.location.path}:{first.location.line}")


def test_levels_that_rise_are_worse_and_those_that_fall_are_not() -> None:
    first, *rest = samples.SCAN.findings
    lower = replace(samples.SCAN, findings=(replace(first, level="note"), *rest))
    (text,) = worse(lower, samples.SCAN)
    assert text.endswith(f"{first.level}, was note")
    assert worse(samples.SCAN, lower) == []


def test_verdicts_and_buckets() -> None:
    def report(**verdicts: Any) -> Report:
        buckets = tuple(Bucket({"batch": int(name[1:])}, verdict, {}) for name, verdict in verdicts.items())
        return replace(samples.READY, devices=(DeviceResult("cuda:0", "ready", buckets, {}),))

    found = texts(report(b1="ready", b2="ready", b4="ready"), report(b1="ready", b2="not-ready", b8="ready"))
    assert found["cuda:0"] == [
        "batch=2: not-ready, was ready",
        "batch=8: new, ready",
        "batch=4: no longer run, was ready",
    ]
    assert worse(report(b1="ready", b2="not-ready"), report(b1="ready")) == []
    assert worse(report(b1="ready", b2="ready"), report(b1="ready")) == ["batch=2: no longer run, was ready"]
    assert worse(report(b1="ready"), report(b1="ready", b2="inconclusive")) == ["batch=2: new, inconclusive"]
    fallen = replace(samples.READY, verdict="not-ready")
    assert worse(samples.READY, fallen) == ["not-ready, was ready"]
    assert worse(fallen, samples.READY) == []


def test_measures_change_where_the_change_is_notable_and_counts_always() -> None:
    def report(graph_ms: float, launches: int) -> Report:
        timing = {"status": "pass", "eager_ms": 7.0, "graph_ms": graph_ms, "launches": launches}
        return with_device(samples.READY, timing=timing)

    assert texts(report(1.40, 912), report(1.45, 913))["cuda:0"] == ["launches: 913, was 912"]
    assert texts(report(1.40, 912), report(2.80, 912))["cuda:0"] == ["replay: 2.8 ms, was 1.4 ms (+100%)"]


def test_memory_that_a_step_takes_and_the_line_with_most_of_it() -> None:
    def report(*lines: tuple[str | None, int, int, int, int]) -> Report:
        return with_device(samples.READY, memory={"status": "pass", "step": samples.held(*lines)})

    before = report(("a.py:3", 2 << 20, 2 << 20, 1, 0), ("a.py:5", 1 << 20, 1 << 20, 1, 0))
    after = report(("a.py:5", 4 << 20, 4 << 20, 1, 0), ("a.py:3", 2 << 20, 2 << 20, 1, 0))
    (text,) = texts(before, after)["cuda:0"]
    assert text == "a step takes: 6.0 MiB, was 3.0 MiB (+100%), most of it at a.py:5"
    assert texts(before, before) == {}


def test_memory_that_begins_to_grow_is_worse() -> None:
    def report(grown: int, leaks: str | None) -> Report:
        growth = {"replays": 100, "bytes": grown, "leaks": leaks}
        return with_device(samples.READY, memory={"status": "pass", "growth": growth})

    sound, leaking = report(0, None), report(409600, "device")
    assert texts(sound, leaking)["cuda:0"] == [
        "growth over all replays: 400.0 KiB, was 0 bytes",
        "device memory grows with every replay",
    ]
    assert worse(sound, leaking) == ["device memory grows with every replay"]
    assert worse(leaking, sound) == []


def test_the_environment_and_the_support() -> None:
    here = samples.READY.environment
    there = replace(here, driver="590.2", settings={"VLLM_ATTENTION_BACKEND": "FLASHMLA"}, libraries={"triton": "3.7"})
    moved = replace(samples.READY, environment=there)
    assert f"driver: 590.2, was {here.driver}" in texts(samples.READY, moved)["environment"]
    assert "VLLM_ATTENTION_BACKEND: FLASHMLA, was not set" in texts(samples.READY, moved)["environment"]
    assert "triton: 3.7, was not set" in texts(samples.READY, moved)["environment"]
    single, uniform = (
        replace(samples.READY, support=Support(Proven(level, length, ()), None))
        for level, length in (("UNIFORM_SINGLE_TOKEN_DECODE", 1), ("UNIFORM_BATCH", 2))
    )
    assert texts(single, uniform)["support"] == ["proven: UNIFORM_BATCH, was UNIFORM_SINGLE_TOKEN_DECODE"]


def test_limits() -> None:
    more = replace(samples.READY, limits=(*samples.READY.limits, Limit("plan", "the step", "nothing was planned")))
    assert texts(samples.READY, more)["not known"] == ["new: the step: nothing was planned"]


def test_plans() -> None:
    verified = Plan(verified=True, coverage=0.9, planned_ms=1.0)
    fallen = replace(verified, verified=False, coverage=0.5, planned_ms=2.0)
    none, good, bad = (replace(samples.READY, plan=plan) for plan in (None, verified, fallen))
    assert texts(none, good)["plan"][0] == "verified"
    assert texts(none, bad)["plan"][0] == "not verified"
    assert texts(bad, none)["plan"][0] == "none, was verified"
    lost, slower, fewer = texts(good, bad)["plan"]
    assert lost == "no longer verified" and slower.startswith("planned step: 2 ms")
    assert fewer == "covers 50% of the operations, was 90%" and fewer in worse(good, bad)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str, Any], str]:
    def save(name: str, reports: Any) -> str:
        (tmp_path / name).write_text(render_json(reports), encoding="utf-8")
        return str(tmp_path / name)

    return save


def test_the_command(saved: Callable[[str, Any], str], capsys: pytest.CaptureFixture[str]) -> None:
    ready, fallen = saved("a.json", samples.READY), saved("b.json", replace(samples.READY, verdict="not-ready"))
    assert main(["diff", ready, ready]) == 0
    assert capsys.readouterr().out == "nothing changed\n"
    assert main(["diff", ready, fallen]) == 1
    assert capsys.readouterr().out.splitlines() == ["verdict:", "  not-ready, was ready", "1 thing got worse"]
    assert main(["diff", fallen, ready]) == 0
    assert main(["diff", ready, ready + ".missing"]) == 2


def test_reports_of_many_targets_are_paired_by_target(
    saved: Callable[[str, Any], str], capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, three = (replace(samples.READY, target=f"model.py:{name}") for name in ("one", "two", "three"))
    before = saved("a.json", (one, two))
    after = saved("b.json", (replace(two, verdict="not-ready"), three))
    assert main(["diff", before, after]) == 1
    out = capsys.readouterr().out
    assert "model.py:two: verdict:\n  not-ready, was ready" in out
    assert "model.py:three:\n  new, ready" in out
    assert "model.py:one:\n  gone" in out


def test_configured_targets_with_one_factory_are_paired_by_name(
    saved: Callable[[str, Any], str], capsys: pytest.CaptureFixture[str]
) -> None:
    small, large = (replace(samples.READY, target="model.py:build", name=name) for name in ("small", "large"))
    fallen = replace(large, verdict="not-ready")
    before = saved("a.json", (small, large))
    assert main(["diff", before, before]) == 0
    assert main(["diff", before, saved("b.json", (fallen, small))]) == 1
    out = capsys.readouterr().out
    assert "large (model.py:build): verdict:\n  not-ready, was ready" in out and "small" not in out
    older = saved("c.json", tuple(replace(one, name=None) for one in (small, large)))
    assert main(["diff", older, before]) == 0
    assert main(["diff", older, saved("d.json", (small, fallen))]) == 1


def test_a_new_target_without_a_proof_and_a_proven_one_that_is_gone_are_worse() -> None:
    one, two = (replace(samples.READY, target=f"model.py:{name}") for name in ("one", "two"))
    bad = replace(samples.CAPTURE, target="model.py:two", verdict="not-ready")

    def worse_of(before: list[Report], after: list[Report]) -> list[str]:
        return [change.text for part in changes(before, after) for change in part.changes if change.worse]

    assert worse_of([one], [one, two]) == []
    assert worse_of([one, bad], [one]) == []
    assert worse_of([one, two], [one]) == ["gone, was ready"]
    verdict, *findings = worse_of([one], [one, bad])
    assert verdict == "new, not-ready"
    assert len(findings) == len({one.fingerprint for one in bad.findings if one.level != "note"}) > 0


def test_what_is_no_report_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"schema": "other"}), encoding="utf-8")
    assert main(["diff", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
