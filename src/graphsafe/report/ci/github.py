"""The output format for GitHub Actions: workflow commands, which GitHub shows as annotations, and a job's summary.

GitHub shows only ten annotations for each level and step, so the last line and the summary give the number of findings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graphsafe.report.fresh_buffers import folded
from graphsafe.report.model import LEVELS, Finding, Level, Report, Verdict, title_of, unsuppressed
from graphsafe.report.no_line import totals, unplaced
from graphsafe.report.text import count, printable

_COMMANDS: Mapping[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
_ROWS = 50
"A summary has at most this many findings, the most severe first. GitHub cuts off a summary above 1 MB."
_MARKUP = re.compile(r"[\\|*_\[\]#!~]")
_VERDICT_COMMANDS: Mapping[Verdict, str] = {
    "ready": "notice",
    "ready-with-breaks": "warning",
    "inconclusive": "warning",
    "not-ready": "error",
}


def render_github(reports: Sequence[Report]) -> str:
    """Return one command per line. A capture's verdict follows its findings, and the last line counts the findings."""
    from graphsafe.report.capture_text import verdict_text

    lines: list[str] = []
    for report in reports:
        lines += [_annotation(finding) for finding in folded(unsuppressed(report))]
        lines += [
            f"::{_COMMANDS[one.level]} title={_property(f'{one.code} {one.rule}')}::{_data(one.text)}"
            for one in unplaced(report.limits)
            if one.level != "note"
        ]
        if report.verdict is not None:
            lines.append(
                f"::{_VERDICT_COMMANDS[report.verdict]} title=graphsafe capture::{_data(verdict_text(report))}"
            )
    lines += [f"graphsafe {report.command}: {_counted(report)}" for report in reports]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def render_summary(reports: Sequence[Report]) -> str:
    """Return the Markdown for the file that the variable GITHUB_STEP_SUMMARY names."""
    parts = []
    for report in reports:
        parts.append(f"### {_cell(title_of(report))}\n\n{_cell(_counted(report))}\n")
        found = sorted(folded(unsuppressed(report)), key=lambda one: -LEVELS.index(one.level))
        if found:
            cells = [(one, _cell(f"{one.location.path}:{one.location.line}")) for one in found[:_ROWS]]
            rows = [f"| {one.level} | {one.code} | {at} | {_cell(one.message)} |" for one, at in cells]
            parts.append("\n".join(["| level | rule | line | |", "|---|---|---|---|", *rows]) + "\n")
        if len(found) > _ROWS:
            parts.append(f"and {count(len(found) - _ROWS, 'more finding')}\n")
    return "\n".join(parts) + "\n" if parts else ""


def _counted(report: Report) -> str:
    """Return the number of findings and the verdict: `ready; 3 errors and 1 note in 2 files`."""
    text = totals(report) or "no findings"
    return f"{report.verdict}; {text}" if report.verdict is not None else text


def _cell(text: str) -> str:
    """Escape a string for a cell of a Markdown table. The result is one line, in which only backticks are markup."""
    return _MARKUP.sub(r"\\\g<0>", printable(" ".join(text.split()))).replace("<", "&lt;")


def _annotation(finding: Finding) -> str:
    at = finding.location
    properties = {"file": at.path, "line": str(at.line), "endLine": str(at.end_line)}
    if at.end_line == at.line:  # GitHub accepts columns only for a finding within one line
        properties |= {"col": str(at.column), "endColumn": str(at.end_column)}
    properties["title"] = f"{finding.code} {finding.rule}"
    text = "\n".join(filter(None, (finding.message, finding.why, finding.fix and f"Fix: {finding.fix}")))
    said = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.level]} {said}::{_data(text)}"


def _data(text: str) -> str:
    """Escape the data of a command. Line breaks become `%0A`, and other control characters become question marks."""
    return "%0A".join(printable(line.replace("%", "%25")) for line in text.replace("\r\n", "\n").split("\n"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
