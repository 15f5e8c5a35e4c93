"""Every form is valid for its reader with no, one and 5,000 findings, and with names and messages that are hostile."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import jsonschema
import pytest
import samples

from graphsafe.report.ci.github import render_summary
from graphsafe.report.forms import render
from graphsafe.report.model import Edit, Finding, Level, Report, Suppression
from graphsafe.report.schema import report_schema
from graphsafe.rulebook.book import load_rulebook

OWN = jsonschema.Draft202012Validator(report_schema())
SARIF = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parents[1] / "data" / "sarif-2.1.0.schema.json").read_text(encoding="utf-8"))
)
GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "minLength": 1, "not": {"pattern": "^\\./"}},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}, "end": {"type": "integer"}},
                    },
                },
            },
        },
        "additionalProperties": False,
    },
}
HOSTILE = (
    "\033[31mred\033[0m \a\b\x00\x7f\x9b",
    "\r\n::error::owned\n##vso[task.complete]",
    "]]> <![CDATA[ <script>alert(1)</script> &amp; \"'",
    "%0A%0D%3A%2C,a=b::c",
    "\u202egnp.exe \u2028 \ufeff \udce9",
    "| a | `b` | [link](http://x) <img src=x> *bold* #1 @user",
    "日本語 😀 " * 30,
    "x" * 3000,
)
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
MANY = 5000
KINDS = len(HOSTILE) * len(LEVELS) * 11
"From this finding on all are like earlier ones, but for their numbers: it is enough to hold so many to a schema."


def finding(number: int) -> Finding:
    first = samples.FINDINGS[0]
    evil = HOSTILE[number % len(HOSTILE)]
    path = f"engine {evil[:80]}/{number // 7}.py"
    location = replace(first.location, path=path, line=number + 1, end_line=number + 1, function=evil)
    return replace(
        first,
        location=location,
        level=LEVELS[number % 3],
        message=evil,
        why=evil,
        fix=evil,
        fingerprint=f"{number:016x}",
        edits=(Edit(number + 1, 1, number + 1, 2, evil),),
        suppressed=Suppression(evil) if number % 11 == 5 else None,
    )


@functools.cache
def reports() -> dict[str, Report]:
    return {
        "none": replace(samples.SCAN, findings=(), limits=()),
        "one": replace(samples.SCAN, findings=(finding(1),)),
        "hostile": replace(samples.SCAN, findings=tuple(map(finding, range(8)))),
        "5000": replace(samples.SCAN, findings=tuple(map(finding, range(MANY)))),
    }


def text_of(report: Report, form: str) -> str:
    return render(report, form, rules=lambda: load_rulebook().rules, source=lambda path: None)


@pytest.fixture(params=["none", "one", "hostile", pytest.param("5000", marks=pytest.mark.child)])
def report(request: pytest.FixtureRequest) -> Report:
    return reports()[request.param]


def test_json(report: Report) -> None:
    written = json.loads(text_of(report, "json"))
    assert len(written["findings"]) == len(report.findings)
    OWN.validate({**written, "findings": written["findings"][:KINDS]})


def test_sarif(report: Report) -> None:
    log = json.loads(text_of(report, "sarif"))
    (run,) = log["runs"]
    few = {**log, "runs": [{**run, "results": run["results"][:KINDS]}]}
    SARIF.validate(few)
    assert len(run["results"]) == len(report.findings)
    rules = run["tool"]["driver"]["rules"]
    assert all(rule["helpUri"] and rules[result["ruleIndex"]] for rule in rules for result in run["results"][:1])
    assert len({json.dumps(result["partialFingerprints"]) for result in run["results"]}) == len(report.findings)


def test_gitlab(report: Report) -> None:
    issues = json.loads(text_of(report, "gitlab"))
    jsonschema.Draft202012Validator(GITLAB).validate(issues[:KINDS])
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == len(shown(report))


def test_junit(report: Report) -> None:
    root = xml.fromstring(text_of(report, "junit"))
    (suite,) = root
    cases = suite.findall("testcase")
    assert len(cases) == int(suite.get("tests", "")) == max(len(report.findings), 1)
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert len(suite.findall(f"testcase/{kind}")) == int(suite.get(name, ""))
    stamps = [element.get("timestamp") for element in root.iter() if element.get("timestamp") is not None]
    assert stamps and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", stamp or "") for stamp in stamps)
    assert all(case.get("classname") and case.get("name") for case in cases)


def test_github(report: Report) -> None:
    *commands, last = text_of(report, "github").splitlines()
    assert len(commands) == len(shown(report))
    for command in commands:
        assert re.fullmatch(r"::(error|warning|notice) (\w+=[^,:]*)(,\w+=[^,:]*)*::.+", command), command
        assert command.isprintable()
        assert not re.search(r"%(?!25|0A|3A|2C)", command)
    assert last.startswith("graphsafe scan: ") and "::" not in last


@pytest.mark.child
def test_github_counts_what_it_cuts_off() -> None:
    assert text_of(reports()["none"], "github") == "graphsafe scan: no findings\n"
    last = text_of(reports()["5000"], "github").splitlines()[-1]
    numbers = [sum(one.level == level for one in shown(reports()["5000"])) for level in LEVELS]
    assert last.startswith(f"graphsafe scan: {numbers[0]} errors, {numbers[1]} warnings and {numbers[2]} notes in ")


def test_summary(report: Report) -> None:
    text = render_summary([report])
    assert len(text.encode()) < 1_000_000
    assert text.startswith("### graphsafe scan\n\n")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == (min(len(shown(report)), 50) + 1 if shown(report) else 0)
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 and "<" not in row for row in rows)


@pytest.mark.parametrize("form", ["terminal", "concise"])
def test_text_cannot_move_the_cursor(form: str, report: Report) -> None:
    text = text_of(report, form)
    assert all(line.isprintable() for line in text.split("\n"))


def test_html_runs_nothing(report: Report) -> None:
    text = text_of(report, "html")
    assert "<script>alert" not in text and "<img src=x" not in text


def shown(report: Report) -> Sequence[Any]:
    return [one for one in report.findings if one.suppressed is None]
