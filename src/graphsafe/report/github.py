"""Workflow commands that GitHub Actions turns into annotations on the changed lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphsafe.report.model import Finding, Level, Report, Verdict, unsuppressed
from graphsafe.report.text import printable

_COMMANDS: Mapping[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
_VERDICT_COMMANDS: Mapping[Verdict, str] = {
    "ready": "notice",
    "ready-with-breaks": "warning",
    "inconclusive": "warning",
    "not-ready": "error",
}


def render_github(reports: Sequence[Report]) -> str:
    """One command per line; a capture's verdict follows its findings."""
    lines: list[str] = []
    for report in reports:
        lines += [_annotation(finding) for finding in unsuppressed(report)]
        if report.verdict is not None:
            title = _property("graphsafe capture")
            lines.append(
                f"::{_VERDICT_COMMANDS[report.verdict]} title={title}::{_data(f'{report.target}: {report.verdict}')}"
            )
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def _annotation(finding: Finding) -> str:
    at = finding.location
    properties = {"file": at.path, "line": str(at.line), "endLine": str(at.end_line)}
    if at.end_line == at.line:  # GitHub knows columns within one line only
        properties |= {"col": str(at.column), "endColumn": str(at.end_column)}
    properties["title"] = f"{finding.code} {finding.rule}"
    text = "\n".join(filter(None, (finding.message, finding.why, finding.fix and f"Fix: {finding.fix}")))
    said = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.level]} {said}::{_data(text)}"


def _data(text: str) -> str:
    """Escape a text: line breaks become `%0A`, other control characters question marks."""
    return "%0A".join(printable(line.replace("%", "%25")) for line in text.replace("\r\n", "\n").split("\n"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
