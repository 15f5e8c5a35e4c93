"""Saved reports that somebody hostile has written: every form stays what it is, and nothing outside is read."""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest

from graphsafe import cli
from graphsafe.report.changes import change_lines, changes
from graphsafe.report.ci.github import render_summary
from graphsafe.report.fingerprint import fingerprint
from graphsafe.report.forms import FORMS, render
from graphsafe.report.html.changes import render_changes
from graphsafe.report.html.words import STYLE
from graphsafe.report.json_form import as_json, parse_reports, read_saved
from graphsafe.report.ledger.model import Ledger
from graphsafe.report.model import Report
from graphsafe.report.shape import ReportError
from graphsafe.report.source import file_lines, line_of, lines_inside

from .hostile_reports import Drawn

EVIL_NAME = "<script>\033[2J\u202e.json"
SECRET = "TOKEN = 'not for the page'"
_OPENED: list[str] | None = None
"The paths that are opened, while a test listens."


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _OPENED is not None and event == "open" and isinstance(arguments[0], (str, bytes)):
        _OPENED.append(os.path.realpath(os.fsdecode(arguments[0])))


sys.addaudithook(_listen)


SEEDS = pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 200), marks=pytest.mark.slow)], ids=str)
"Only the slow tests draw all."


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a secret beside it, and links and pipes in it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "secret.py").write_text(f"{SECRET}\n" * 9)
    (folder / ".env").write_text(f"{SECRET}\n" * 9)
    (folder / "inside.py").write_text(
        "\033[31mred <script>alert(1)</script> \u202e ##[add-path]x\n::error::forged\n" * 9
    )
    (folder / "outside_link.py").symlink_to("../secret.py")
    (folder / "circle.py").symlink_to("circle.py")
    os.mkfifo(folder / "fifo.py")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def opened() -> Iterator[list[str]]:
    global _OPENED
    _OPENED = []
    yield _OPENED
    _OPENED = None


@pytest.mark.child
@SEEDS
def test_every_form_of_drawn_reports(seeds: range, project: Path, opened: list[str]) -> None:
    before: Report | None = None
    for seed in seeds:
        saved = Drawn(seed, str(project)).report()
        report = parse_reports(json.dumps(saved))
        assert isinstance(report, Report)
        for form in FORMS:
            for colour in (False, True) if form == "terminal" else (False,):
                text = render(report, form, source=lines_inside(project), colour=colour, width=40 + seed)
                assert SECRET not in text
                assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)  # they change the direction of writing
                CHECKS.get(form, check_printable)(text, report)
        check_text(render_summary([report]))
        check_text("\n".join(change_lines(changes([before or report], [report]))))
        check_page(render_changes([before or report], [report], (EVIL_NAME, EVIL_NAME)))
        before = report
    outside = {path for path in opened if not path.startswith((str(project), sys.prefix, sys.base_prefix))}
    assert not {path for path in outside if "/graphsafe/" not in path}


@pytest.mark.child
@SEEDS
def test_every_form_of_drawn_ledgers(seeds: range, project: Path, opened: list[str]) -> None:
    for seed in seeds:
        saved = Drawn(seed, str(project)).ledger()
        Path("saved.json").write_text(json.dumps(saved))
        ledger = read_saved(Path("saved.json"))
        assert isinstance(ledger, Ledger)
        for form in FORMS:
            out = render(ledger, form, source=lines_inside(project), width=40 + seed)
            assert SECRET not in out
            if form in ("terminal", "concise"):
                check_text(out)
            elif form == "html":
                Page().feed(out)
            elif form == "junit":
                assert not {c for c in "".join(ElementTree.fromstring(out).itertext()) if c in "\0\033\x08"}
            elif form == "sarif":
                check_sarif(out, None)
            elif form in ("json", "gitlab", "trace"):
                json.loads(out)
            elif form != "github":
                check_printable(out)
            else:
                *commands, _ = out.removesuffix("\n").split("\n")
                assert all(re.fullmatch(r"::(error|warning|notice) [^\n]*", command) for command in commands)
                assert not {c for c in out if unicodedata.category(c) in ("Cc", "Cf", "Cs")} - {"\n"}
    outside = {path for path in opened if not path.startswith((str(project), sys.prefix, sys.base_prefix))}
    assert not {path for path in outside if "/graphsafe/" not in path}


def check_text(text: str, _: object = None) -> None:
    """No character controls the terminal, and no line is a command to the CI system that shows it."""
    text = re.sub(r"\033\[(?:0|[12](?:;38;5;\d+)?|38;5;\d+)m", "", text)
    check_printable(text)
    for line in text.split("\n"):
        assert not re.match(r"\s*::\s*[\w-]+.*::", line), line
        assert not re.search(r"##\w*\[", line), line


def check_printable(text: str, _: object = None) -> None:
    """No line has a character that controls a terminal."""
    for line in text.split("\n"):
        assert not {c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}, line


def check_github(text: str, report: Report) -> None:
    *commands, last = text.removesuffix("\n").split("\n")
    assert re.fullmatch(r"graphsafe (scan|capture): [\w ,;-]+", last)
    assert len(commands) <= len(report.findings) + 1
    for command in commands:
        match = re.fullmatch(r"::(error|warning|notice) ((?:\w+=[^:,]*,?)+)::.*", command)
        assert match, command
        names = [one.partition("=")[0] for one in match[2].split(",")]
        assert set(names) <= {"file", "line", "endLine", "col", "endColumn", "title"}, names
        assert len(names) == len(set(names))
        assert not {c for c in command if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


def check_json(text: str, report: Report) -> None:
    assert as_json(parse_reports(text)) == as_json(report)  # type: ignore[arg-type]


def check_gitlab(text: str, _: Report) -> None:
    for issue in json.loads(text):
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}


def check_sarif(text: str, _: Report | None) -> None:
    for uri in re.findall(r'"(?:uri|helpUri|informationUri)": "([^"]*)"', text):
        assert re.fullmatch(r"(https://docs\.pytorch\.org/.*|file:///[\w%./~-]*|(?!//)[\w%./~-]*)", uri), uri
    for message in messages(json.loads(text)):
        assert not re.search(r"(?<!\\)\]\(", message), message


def messages(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("message"), dict):
            yield value["message"]["text"]
        for item in value.values():
            yield from messages(item)
    elif isinstance(value, list):
        for item in value:
            yield from messages(item)


def check_junit(text: str, report: Report) -> None:
    root = ElementTree.fromstring(text)
    (suite,) = root
    cases = len(report.findings) if report.devices is None else sum(len(one.buckets) or 1 for one in report.devices)
    assert len(suite) == max(cases, 1)
    assert {child.tag for case in suite for child in case} <= {"failure", "error", "skipped", "system-out"}
    assert not {c for c in "".join(root.itertext()) if unicodedata.category(c) == "Cc"} - {"\n", "\t", "\r"}


_TAGS = frozenset(
    "html head meta title style body main header nav section h1 h2 h3 h4 p small strong b span code pre mark br ol ul "
    "li table tr td details summary article label div form select option svg rect".split()
)
_ATTRIBUTES = frozenset("lang charset name content class open viewbox preserveaspectratio x y width height".split())


class Page(HTMLParser):
    """Refuses all that a page of graphsafe does not have."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, tag
        for name, value in attrs:
            assert name in _ATTRIBUTES, (tag, name, value)
            assert name == "content" or re.fullmatch(r"[\w. -]*", value or ""), (tag, name, value)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)


def check_html(text: str, report: Report) -> None:
    check_page(text)
    assert text.count("<article") == len(report.findings)


def check_page(text: str) -> None:
    page = Page()
    page.feed(text)
    page.close()
    assert text.count(STYLE) == 1
    text = text.replace("\n", "").replace("\t", "")
    assert not {c for c in text if unicodedata.category(c) in ("Cc", "Cs") or c in "\u202a\u202b\u202d\u202e\u2066"}


def check_trace(text: str, _: Report) -> None:
    """Numbers and text alone: a viewer takes no address and no markup from it."""
    assert text.isascii()
    trace = json.loads(text, parse_constant=pytest.fail)
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    for event in trace["traceEvents"]:
        assert event["ph"] in ("M", "X")
        assert {type(event[key]) for key in ("pid", "tid")} == {int}
        assert event["ph"] == "M" or {type(event[key]) for key in ("ts", "dur")} <= {int, float}


CHECKS = {
    "terminal": check_text,
    "concise": check_text,
    "json": check_json,
    "sarif": check_sarif,
    "github": check_github,
    "gitlab": check_gitlab,
    "junit": check_junit,
    "html": check_html,
    "trace": check_trace,
}


@pytest.mark.child
def test_what_is_not_of_the_schema_is_refused_in_one_line(project: Path) -> None:
    """One value or key of a drawn report is replaced or taken away; what is read nevertheless can be shown."""
    random = Random(0)
    refused = 0
    for seed in range(400):
        saved = Drawn(seed, str(project)).report()
        where = random.choice([*places(saved)])
        *way, key = where
        holder: Any = saved
        for step in way:
            holder = holder[step]
        if random.random() < 0.2 and isinstance(holder, dict):
            del holder[key]
        else:
            holder[key] = random.choice((None, True, -1, 0.5, "unheard", "\033[31m\n::error::", [], [[]], {}, {"a": 1}))
        try:
            report = parse_reports(json.dumps(saved))
        except ReportError as error:
            refused += 1
            check_text(str(error))
            assert "\n" not in str(error)
        else:
            assert isinstance(report, Report)
            for form in FORMS:
                render(report, form, source=lines_inside(project))
            changes([report], [report])
    assert refused > 100


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*way, key)
        yield from places(item, (*way, key))


@pytest.mark.parametrize(
    ("spoiled", "line"),
    [
        (
            '"verdict": "\\u001b[2J"',
            "verdict: expected one of ready, ready-with-breaks, inconclusive, not-ready, found",
        ),
        (
            '"devices": [{"device": "cuda:0", "verdict": "ready", "buckets": [], "probes": {"step": {"status": 1}}}]',
            "devices[0].probes.step.status: expected one of pass, fail, skipped, crashed, timeout, found 1",
        ),
        ('"plan": {"segments": 7}', "plan.verified: missing"),
        ('"findings": 1e999', "not a report: contains a number that is too large"),
        ('"limits": NaN', "not a report: contains a number that is too large"),
        (f'"limits": {"9" * 4000}', "not a report: contains a number that is too large"),
        (f'"limits": {"9" * 5000}', "not JSON: "),
        (f'"limits": {"[" * 500}{"]" * 500}', "not a report: nested too deeply"),
        (
            '"support": {"proven": {"level": "__class__", "max_query_len": 1, "buckets": []}, "declared": null}',
            "support.",
        ),
    ],
)
def test_a_report_that_is_none_ends_in_one_line(
    project: Path, spoiled: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = json.dumps(Drawn(1, str(project)).report())
    # The last of two equal keys counts.
    Path("saved.json").write_text(f"{sound[:-1]}, {spoiled}}}")
    for command in (["report", "saved.json"], ["diff", "saved.json", "saved.json"]):
        assert cli.main(command) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith(f"graphsafe: saved.json: {line}")
        check_text(err)


def test_the_command_shows_code_of_python_files_below_the_working_directory_only(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = {"column": 1, "end_column": 2, "function": None}
    drawn = next(one for seed in range(99) if (one := Drawn(seed, "").report())["findings"])
    finding = {**drawn["findings"][0], "level": "error", "code": "GS101", "suppressed": None}
    for path in ("inside.py", ".env", "outside_link.py", "../secret.py", f"{project.parent}/secret.py", "fifo.py"):
        finding["location"] = {**place, "path": path, "line": 2, "end_line": 2}
        line = line_of(file_lines(path) if path != "fifo.py" else None, 2)
        finding["fingerprint"] = fingerprint("GS101", path, None, line, 0)
        Path("saved.json").write_text(json.dumps({**drawn, "findings": [finding]}))
        for form in ("terminal", "html"):
            assert cli.main(["report", "saved.json", "--format", form]) == 0
            out = capsys.readouterr().out
            assert "TOKEN" not in out
            assert ("2 | ::error::forged" in out or "<mark>:</mark>:error" in out) == (path == "inside.py")


@pytest.mark.parametrize(
    ("name", "why"),
    [("fifo.py", "not a regular file"), ("/dev/zero", "not a regular file"), ("large", "larger than 256 MB")],
)
def test_a_report_without_an_end_is_not_read(
    project: Path, name: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("saved.json").symlink_to(name)
    with Path("large").open("wb") as large:
        large.truncate(300_000_000)
    for command in (
        ["report", "saved.json"],
        ["report", "merge", "saved.json", "saved.json"],
        ["diff", "saved.json", "saved.json"],
        ["scan", "--with", "saved.json"],
    ):
        assert cli.main(command) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err == f"graphsafe: saved.json: cannot be read: {why}\n"
