"""The page: its summary, filters that need no script, folds, and the picture of the step in time."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import samples

from graphsafe import cli
from graphsafe.report.forms import render
from graphsafe.report.model import DeviceResult, Finding, Level, Report
from graphsafe.report.probes import PROBES
from graphsafe.report.probes.timeline import Gap, Operation, Timeline


def page(report: Report) -> str:
    return render(report, "html", source=samples.source)


def findings(*codes: str) -> tuple[Finding, ...]:
    first = samples.FINDINGS[0]
    found = []
    for number, code in enumerate(codes):
        location = replace(first.location, path=f"engine/{'ab'[number % 2]}.py", line=number + 1, end_line=number + 1)
        level: Level = "note" if code == "GS401" else "error"
        found.append(
            replace(first, code=code, level=level, location=location, suppressed=None, fingerprint=str(number))
        )
    return tuple(found)


def hidden_by(text: str, option: str) -> list[str]:
    """The messages' codes that the page's own rules hide while an option is chosen, as a browser applies them."""
    (name,) = re.findall(rf'<option class="(\w+)">{re.escape(option)} \(\d+\)</option>', text)
    (rule,) = re.findall(rf"^\.filters:has\(option\.{name}:checked\) .*$", text, re.MULTILINE)
    element = "section" if "section:not" in rule else "article"
    assert f"~ {'section' if element == 'section' else 'section article'}:not(.{name})" in rule
    parts = re.findall(rf'<{element} class="([^"]*)">(.*?)</{element}>', text, re.DOTALL)
    return [
        code for classes, part in parts if name not in classes.split() for code in re.findall(r"<h4><span>(\w+)", part)
    ]


def test_filters_by_level_code_and_file() -> None:
    levels = zip(findings("GS101", "GS202", "GS101", "GS703"), ("error", "error", "note", "warning"), strict=True)
    text = page(replace(samples.SCAN, findings=tuple(replace(finding, level=level) for finding, level in levels)))
    assert hidden_by(text, "note") == ["GS101", "GS202", "GS703"]
    assert hidden_by(text, "GS101") == ["GS202", "GS703"]
    assert hidden_by(text, "engine/a.py") == ["GS202", "GS703"]
    assert "any region" not in text  # all of them are in one: there is no choice


def test_many_fresh_buffers_are_folded_and_few_are_not() -> None:
    few = page(replace(samples.SCAN, findings=findings("GS101", "GS401", "GS401")))
    assert "<details class=" not in few.replace('<details class="suppressed"', "")
    many = page(replace(samples.SCAN, findings=findings("GS101", *["GS401"] * 6)))
    before, fold, inside = many.partition("<summary>GS401: 6 fresh buffers in 2 files</summary>")
    assert fold and before.count("<article") == 1 and inside.count("<article") == 6
    raised = [replace(finding, level="warning") for finding in findings(*["GS401"] * 6)]
    assert "fresh buffers" not in page(replace(samples.SCAN, findings=tuple(raised)))


def measured() -> Timeline:
    def one(lane: str, kind: str, begin: float, us: float, behind: float | None = None) -> Operation:
        return Operation(lane, kind, "name", "m.py:4", begin, us, 7 if lane == "device" else None, behind, False, 1)  # type: ignore[arg-type]

    operations = one("host", "launch", 0, 5), one("device", "kernel", 10, 40), one("host", "wait", 20, 35, 30.0)
    return Timeline(
        "pass",
        step_us=100.0,
        busy_us=40.0,
        operations=operations,
        gaps=(Gap("wait", "m.py:4", 50.0, 50.0),),
        replay_us=40.0,
        replay=(replace(operations[1], begin_us=0.0, in_graph=True),),
        left_out=0,
    )


def report(timeline: Timeline) -> Report:
    said = {**{name: {"status": "skipped"} for name in PROBES}, "timeline": asdict(timeline)}
    return replace(samples.READY, findings=(), devices=(DeviceResult("cuda:0", "ready", (), said),))


def test_lanes_stand_below_each_other_on_one_scale() -> None:
    text = page(report(measured()))
    assert re.findall(r'<p class="lane">([\w ]+)</p>', text) == ["host", "GPU", "gaps", "one replay", "ideal"]
    bars = re.findall(r'<rect class="([\w-]+)" x="([\d.]+)" y="1" width="([\d.]+)"', text)
    assert [(kind, float(x), float(width)) for kind, x, width in bars] == [
        ("launch", 0, 50),
        ("wait", 200, 350),
        ("kernel", 100, 400),
        ("gap-wait", 500, 500),
        ("graph", 0, 400),
        ("kernel", 0, 400),
    ]
    assert "<title>wait name, at m.py:4, 35 µs, 30 µs of it while the device worked</title>" in text
    assert "of 0.1 ms the device works 0.04 ms, idles 0.06 ms, a replay takes 0.04 ms" in text


def test_a_trace_has_a_process_a_bucket_and_a_thread_a_lane() -> None:
    trace = json.loads(render(report(measured()), "trace"))
    (process,) = [event for event in trace["traceEvents"] if event["name"] == "process_name"]
    assert process["args"]["name"].endswith(" on cuda:0")
    threads = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert list(threads.values()) == ["host", "GPU", "gaps", "one replay", "ideal"]
    spans = [(threads[event["tid"]], event["ts"], event["dur"]) for event in trace["traceEvents"] if event["ph"] == "X"]
    assert ("GPU", 10, 40) in spans and ("one replay", 0, 40) in spans
    assert json.loads(render(samples.READY, "trace"))["otherData"]["without a timeline"]


def test_a_comparison_draws_both_steps_on_one_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    slower = replace(measured(), step_us=200.0)
    worse = replace(report(slower), verdict="not-ready", target="other.py:build")
    for name, saved in (("a.json", report(measured())), ("b.json", worse), ("c.json", samples.READY)):
        Path(name).write_text(render(saved, "json"))
    assert cli.main(["diff", "a.json", "b.json", "-o", "change.html"]) == 1
    assert capsys.readouterr().out == ""
    text = Path("change.html").read_text()
    assert "1 thing got worse" in text and '<li class="worse">not-ready, was ready</li>' in text
    assert re.findall(r"<summary>([ab].json): of (\S+) ms", text) == [("a.json", "0.1"), ("b.json", "0.2")]
    waits = re.findall(r'<rect class="wait" x="([\d.]+)" y="1" width="([\d.]+)"', text)
    assert [(float(x), float(width)) for x, width in waits] == [(100, 175), (100, 175)]
    assert "<script" not in text and "src=" not in text

    assert cli.main(["diff", "c.json", "c.json", "--format", "html"]) == 0
    assert "Neither report has a timeline" in capsys.readouterr().out
    assert cli.main(["diff", "a.json", "b.json", "-o", "change.txt"]) == 1
    assert Path("change.txt").read_text().endswith("1 thing got worse\n")
