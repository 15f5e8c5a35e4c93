"""The exceptions of failed assertions in tests, and the text of a failed proof: the user's own lines before those of
libraries."""

from __future__ import annotations

import shutil
from dataclasses import replace

from graphsafe.report.model import Finding, Report, unsuppressed
from graphsafe.report.source import file_lines
from graphsafe.report.terminal import render_findings, render_terminal


class NotReady(AssertionError):
    """A step was not proven ready; `report` says why."""

    def __init__(self, text: str, report: Report) -> None:
        super().__init__(text)
        self.report = report


NotReady.__module__ = "graphsafe"  # users import the class under this module's name


def own_first(findings: list[Finding]) -> list[Finding]:
    """Order findings so that those in libraries come last; their paths begin at site-packages and cannot be opened
    here."""
    return sorted(findings, key=lambda finding: file_lines(finding.location.path) is None)


def failure_text(report: Report, *, colour: bool = False) -> str:
    """Return the verdict, the errors and warnings with their code, and the rest of the report."""
    width = min(max(shutil.get_terminal_size().columns - 4, 60), 120)
    shown = own_first([finding for finding in unsuppressed(report) if finding.level != "note"])
    parts = [f"{report.target} is {report.verdict}"]
    if shown:
        parts.append(render_findings(shown, file_lines, colour=colour, width=width))
    rest = render_terminal([replace(report, findings=())], file_lines, colour=colour, width=width)
    parts.append(rest.rstrip().rpartition("\n\n")[0])  # the report's last paragraph summarises its findings
    return "\n".join(part.rstrip() + "\n" for part in parts).rstrip()
