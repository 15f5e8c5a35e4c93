"""The forms that other programs read: each is what its reader expects, and the same bytes every time."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest
import samples

from graphsafe.report.forms import FORMS, render
from graphsafe.report.model import DeviceResult, Level, Limit, Report, Suppression

ROOT = Path(__file__).parents[2]
CONTRACT = {"terminal", "concise", "json", "sarif", "github", "gitlab", "junit", "html", "trace"}
"The forms that users rely on. Further ones need not be named here."
JSON = ("json", "sarif", "gitlab", "trace")
EVIL = "<script>alert(1)</script> & \"quotes\" 'here' \033[31m ]]> %0A ::error::x\nnext line \udce9"


@dataclass(frozen=True)
class Rule:
    code: str
    name: str
    level: Level
    summary: str
    what: str
    why: str
    fix: str


RULES = {"GS101": Rule("GS101", "scalar-read", "error", "Reads a value.", "It reads.", "It waits.", "Keep `x[i](y)`.")}


def form(report: Report, name: str) -> str:
    return render(report, name, source=samples.source, rules=lambda: RULES)


def evil_report() -> Report:
    first = samples.FINDINGS[0]
    location = replace(first.location, path=f"a b/{EVIL}.py", function=EVIL)
    finding = replace(first, message=EVIL, why=EVIL, fix=EVIL, location=location, rule=EVIL, edits=())
    suppressed = replace(finding, suppressed=Suppression(EVIL), fingerprint="2")
    return replace(samples.SCAN, findings=(finding, suppressed), limits=(Limit(EVIL, EVIL, EVIL),))


def test_there_are_the_forms_of_the_design() -> None:
    assert set(FORMS) >= CONTRACT
    with pytest.raises(ValueError, match="no such form: yaml"):
        render(samples.SCAN, "yaml")


@pytest.mark.parametrize("name", FORMS)
def test_every_form_has_a_function_and_is_on_a_page(name: str) -> None:
    module = f"graphsafe.report.{FORMS[name]}"
    assert hasattr(import_module(module), f"render_{name}"), f"{module} has no function render_{name}"
    page = "docs/timeline.md" if name == "trace" else "docs/scan.md"
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.search(rf"`(?:[^`\n]* )?{name}`", text), f"{page} does not name the format {name}"


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL.keys())
def test_same_bytes_whatever_the_order_of_finding(report: Report, name: str) -> None:
    backwards = replace(report, findings=report.findings[::-1])
    text = form(report, name)
    assert form(backwards, name) == text
    assert text == "" or text.endswith("\n")


def test_same_bytes_in_every_process() -> None:
    code = (
        "import samples; from graphsafe.report.forms import FORMS, render;"
        "print(ascii({name: render(samples.SCAN, name, source=samples.source) for name in FORMS}))"
    )
    here = {name: render(samples.SCAN, name, source=samples.source) for name in FORMS}
    for seed in ("1", "2"):
        elsewhere = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
        )
        assert ast.literal_eval(elsewhere.stdout) == here


@pytest.mark.parametrize("name", FORMS)
def test_any_text_can_be_written(name: str) -> None:
    form(evil_report(), name).encode("utf-8")


@pytest.mark.parametrize("name", ("junit", *JSON))
@pytest.mark.parametrize("reports", [[], [samples.SCAN, samples.CAPTURE, samples.READY]], ids=["none", "three"])
def test_many_reports_are_one_document(reports: list[Report], name: str) -> None:
    text = render(reports, name)
    if name == "junit":
        assert len(xml.fromstring(text)) == len(reports)
    elif name == "sarif":
        assert len(json.loads(text)["runs"]) == len(reports)
    else:
        json.loads(text)


# SARIF


def run_of(report: Report) -> dict[str, Any]:
    log = json.loads(form(report, "sarif"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return dict(run)


def test_sarif_results_point_at_their_rules_and_places() -> None:
    run = run_of(samples.SCAN)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted({finding.code for finding in samples.FINDINGS})
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    read = next(result for result in run["results"] if result["ruleId"] == "GS101")
    assert read["level"] == "error"
    assert read["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "engine/layer.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 11, "startColumn": 19, "endLine": 11, "endColumn": 37},
    }
    assert read["partialFingerprints"] == {"graphsafe/v1": samples.FINDINGS[0].fingerprint}
    assert run["columnKind"] == "unicodeCodePoints"


def test_sarif_carries_the_help_of_the_rulebook() -> None:
    rules = {rule["id"]: rule for rule in run_of(samples.SCAN)["tool"]["driver"]["rules"]}
    assert rules["GS101"]["shortDescription"] == {"text": "Reads a value."}
    assert "## Why it breaks a capture\n\nIt waits." in rules["GS101"]["help"]["markdown"]
    assert rules["GS101"]["defaultConfiguration"] == {"level": "error"}
    assert rules["GS202"].keys() == {"id", "name", "helpUri"} and rules["GS202"]["name"] == "mask-index"


def test_sarif_marks_what_is_suppressed_instead_of_dropping_it() -> None:
    results = run_of(samples.SCAN)["results"]
    assert len(results) == len(samples.FINDINGS)
    suppressed = [result for result in results if result["suppressions"]]
    assert [result["ruleId"] for result in suppressed] == ["GS201"]
    reason = "statistics, switched off in serving"
    assert suppressed[0]["suppressions"] == [{"kind": "inSource", "justification": reason}]


def test_sarif_flows_from_the_root_to_the_line() -> None:
    result = next(one for one in run_of(samples.SCAN)["results"] if one["ruleId"] == "GS104")
    steps = [step["location"] for step in result["codeFlows"][0]["threadFlows"][0]["locations"]]
    assert [step["message"]["text"] for step in steps[:2]] == [
        "DecoderLayer.forward calls route",
        "route calls bucket",
    ]
    assert [step["physicalLocation"]["region"]["startLine"] for step in steps] == [17, 2, 7]


def test_sarif_limits_verdict_and_edits() -> None:
    run = run_of(samples.CAPTURE)
    (notice,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notice["descriptor"] == {"id": "not-varied"}
    target = {"target": samples.CAPTURE.target, "name": None}
    assert run["properties"] == {**target, "verdict": "not-ready", "evidence": "measured"}
    (fix,) = next(result for result in run_of(samples.SCAN)["results"] if "fixes" in result)["fixes"]
    assert fix["artifactChanges"][0]["replacements"][0]["insertedContent"] == {"text": "self.longest"}


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("a b/ü#.py", {"uri": "a%20b/%C3%BC%23.py", "uriBaseId": "%SRCROOT%"}),
        ("/abs/x.py", {"uri": "file:///abs/x.py"}),
        ("caf\udce9.py", {"uri": "caf%E9.py", "uriBaseId": "%SRCROOT%"}),
    ],
)
def test_sarif_paths_are_uris(path: str, location: dict[str, str]) -> None:
    finding = samples.FINDINGS[0]
    report = replace(samples.SCAN, findings=(replace(finding, location=replace(finding.location, path=path)),))
    assert run_of(report)["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"] == location


def test_sarif_code_is_no_link() -> None:
    report = replace(
        samples.SCAN, findings=(replace(samples.FINDINGS[0], message="`table[key](x)` reads `a[0]`", fix=""),)
    )
    assert run_of(report)["results"][0]["message"] == {"text": r"`table\[key\](x)` reads `a[0]`"}


# GitHub


def test_github_annotates_lines() -> None:
    *lines, last = form(samples.SCAN, "github").splitlines()
    assert last.startswith("graphsafe scan: ") and len(lines) == 1 + sum(
        finding.suppressed is None and finding.code != "GS401" for finding in samples.FINDINGS
    )
    assert (
        "::error file=engine/routing.py,line=7,endLine=7,col=11,endColumn=36,title=GS104 tensor-format::"
        "an f-string formats `tokens.sum()`, a device tensor%0AThe host waits"
    ) in "\n".join(lines)
    assert {line.split()[0] for line in lines} == {"::error", "::warning", "::notice"}


def test_github_gives_no_columns_for_several_lines() -> None:
    finding = samples.FINDINGS[0]
    report = replace(samples.SCAN, findings=(replace(finding, location=replace(finding.location, end_line=12)),))
    assert form(report, "github").startswith("::error file=engine/layer.py,line=11,endLine=12,title=")


def test_github_says_the_verdict() -> None:
    *_, verdict, last = form(samples.CAPTURE, "github").splitlines()
    assert last == "graphsafe capture: not-ready; 2 errors in 1 file"
    assert verdict == "::error title=graphsafe capture::examples/decoder_bad/factory.py:build: not-ready"
    assert form(samples.READY, "github").startswith("::notice title=graphsafe capture::")


def test_github_text_cannot_start_a_command() -> None:
    text = form(evil_report(), "github")
    assert len(text.splitlines()) == 2
    properties = text.split("::")[1]
    assert properties.count("=") == 6 and properties.count(",") == 5
    assert "%250A" in text


# GitLab


def test_gitlab_issues() -> None:
    issues = json.loads(form(samples.SCAN, "gitlab"))
    assert issues[2] == {
        "description": f"{samples.READ}. Fix: {samples.FINDINGS[0].fix}",
        "check_name": "GS101 scalar-read",
        "fingerprint": samples.FINDINGS[0].fingerprint,
        "severity": "major",
        "location": {"path": "engine/layer.py", "lines": {"begin": 11, "end": 11}},
    }
    assert {issue["severity"] for issue in issues} == {"major", "minor", "info"}
    assert "GS201" not in form(samples.SCAN, "gitlab")


def test_gitlab_fingerprints_occur_once() -> None:
    devices = tuple(replace(samples.CAPTURE.findings[0], device=f"cuda:{number}") for number in range(8))
    issues = json.loads(form(replace(samples.CAPTURE, findings=devices), "gitlab"))
    assert len(issues) == 1


# JUnit


def suite_of(report: Report) -> xml.Element:
    (suite,) = xml.fromstring(form(report, "junit"))
    return suite


def outcomes(suite: xml.Element) -> list[str]:
    return [case[0].tag if len(case) else "pass" for case in suite]


def test_junit_errors_fail_and_the_rest_passes() -> None:
    suite = suite_of(samples.SCAN)
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "10",
        "failures": "5",
        "errors": "0",
        "skipped": "1",
    }
    failure = suite.find("testcase/failure")
    assert failure is not None and failure.get("type") == "GS101"
    assert "engine/layer.py:11:19: GS101" in (failure.text or "")


def test_junit_without_findings_has_a_case_that_passes() -> None:
    assert outcomes(suite_of(samples.EMPTY_SCAN)) == ["pass"]


def test_junit_has_a_case_a_device_and_bucket() -> None:
    suite = suite_of(samples.CAPTURE)
    assert [case.get("name") for case in suite] == ["cuda:0", "cuda:1 batch=1 q_len=2", "cuda:1 batch=4 q_len=2"]
    assert outcomes(suite) == ["pass", "pass", "failure"]
    assert "operation not permitted" in (suite[2][0].get("message") or "")
    assert "GS102" in (suite[2][0].text or "")


@pytest.mark.parametrize(("verdict", "outcome"), [("inconclusive", "error"), ("ready-with-breaks", "skipped")])
def test_junit_verdicts(verdict: Any, outcome: str) -> None:
    device = DeviceResult("cuda:0", verdict, (), {})
    assert outcomes(suite_of(replace(samples.READY, devices=(device,)))) == [outcome]


def test_junit_of_a_request_that_could_not_be_met() -> None:
    limits = (Limit("device", "cuda:9", "this machine has 1 GPU"),)
    suite = suite_of(replace(samples.READY, devices=(), verdict="inconclusive", limits=limits))
    assert outcomes(suite) == ["error"]
    assert suite[0][0].get("message") == "cuda:9: this machine has 1 GPU"


# HTML


class Page(HTMLParser):
    """Collects what a page would load or run, and whether its tags are closed in order."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(report: Report) -> Page:
    page = Page()
    page.feed(form(report, "html"))
    page.close()
    return page


@pytest.mark.parametrize("report", [*samples.ALL.values(), evil_report()], ids=[*samples.ALL, "evil"])
def test_html_is_whole_and_needs_nothing_beside_it(report: Report) -> None:
    page = page_of(report)
    assert page.open == []
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed"}
    assert not {name for name in page.attributes if name.startswith("on")} | (page.attributes & {"src", "href"})
    assert "url(" not in form(report, "html") and "@import" not in form(report, "html")


def test_html_says_what_the_report_says() -> None:
    text = page_of(samples.SCAN).text
    for finding in samples.FINDINGS:
        assert finding.code in text
        assert finding.message.replace("`", "") in text
    assert "5 errors, 1 warning, 3 notes and 1 suppressed" in text
    capture = re.sub(r"\s+", " ", page_of(samples.CAPTURE).text)
    assert "Memory that a step takes, by line: 20.0 MiB at once" in capture
    assert "engine/layer.py:150 bytes4.0 KiB14.0 KiB" in capture
    assert "cuda:1 not-ready" in capture and "batch=4 q_len=2 not-ready the capture failed" in capture


def test_html_marks_the_span() -> None:
    assert "longest = <mark>int(lengths.max())</mark>  # the longest" in form(samples.SCAN, "html")


def test_fresh_buffers_are_folded_for_people_and_each_is_there_for_programs() -> None:
    for name, number in (("github", 0), ("gitlab", 1), ("junit", 1), ("sarif", 1), ("json", 1)):
        text = form(samples.SCAN, name)
        assert {text.count(f"`{call}` allocates") for call in ("torch.zeros", "torch.empty_like")} <= {
            number,
            2 * number,
        }
    commands = [line for line in form(samples.SCAN, "github").splitlines() if line.startswith("::")]
    assert "::2 fresh buffers every step, here and line 10%0A" in commands[-1]


def test_targets_with_one_factory_are_told_apart_by_their_names() -> None:
    reports = [replace(samples.CAPTURE, target="model.py:build", name=name) for name in ("small", "large")]
    both = {name: render(reports, name, source=samples.source, rules=lambda: RULES) for name in FORMS}
    runs = json.loads(both["sarif"])["runs"]
    assert len({run["automationDetails"]["id"] for run in runs}) == 2
    assert [suite.get("name") for suite in xml.fromstring(both["junit"])] == [
        "graphsafe capture small (model.py:build)",
        "graphsafe capture large (model.py:build)",
    ]
    for name in ("terminal", "concise", "github", "html"):
        assert "small (model.py:build)" in both[name] and "large (model.py:build)" in both[name], name
