"""Turns the events of a forbidden block into findings, in the words of the rulebook.

It also contains the exceptions of failed assertions and their messages. In the messages, the user's own lines come
before the lines of libraries.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.shared.classify import code_of, how_of, reader_of, value_read
from graphsafe.capture.shared.places import chain, line_text, location, text_at
from graphsafe.guard.source import Launches
from graphsafe.report.model import CallSite, Finding, in_order, unsuppressed
from graphsafe.report.shown import Report
from graphsafe.report.source import file_lines
from graphsafe.report.terminal import render_findings, render_terminal
from graphsafe.report.text import count
from graphsafe.rulebook.book import load_rulebook


class NotReady(AssertionError):
    """Raised by a test if a step was not proven ready. `report` says why."""

    def __init__(self, text: str, report: Report) -> None:
        super().__init__(text)
        self.report = report


NotReady.__module__ = "graphsafe"  # users import the class from this module


def own_first(findings: list[Finding]) -> list[Finding]:
    """Sort findings so that those in the user's own files come first. The paths of library files are relative to
    site-packages, so these files cannot be opened here."""
    return sorted(findings, key=lambda finding: file_lines(finding.location.path) is None)


def failure_text(report: Report) -> str:
    """Return the verdict, the errors and warnings with their code, and the rest of the report."""
    width = _width()
    shown = own_first([finding for finding in unsuppressed(report) if finding.level != "note"])
    parts = [f"{report.called} is {report.verdict}"]
    if shown:
        parts.append(render_findings(shown, file_lines, colour=False, width=width))
    rest = render_terminal([replace(report, findings=())], file_lines, colour=False, width=width)
    parts.append(rest.rstrip().rpartition("\n\n")[0])  # the report's last paragraph summarises its findings
    return "\n".join(part.rstrip() + "\n" for part in parts).rstrip()


def _width() -> int:
    return min(max(shutil.get_terminal_size().columns - 4, 60), 120)


_TAKES_MEMORY = (
    "Each allocation of device memory counts, also for the results of operations. Allocate the "
    "memory that the code needs before it runs."
)


class Forbidden(AssertionError):
    """Raised if a block did something that `graphsafe.forbid` forbids.

    `findings` are the lines that did it, the user's own lines first.
    """

    def __init__(self, text: str, findings: Sequence[Finding]) -> None:
        super().__init__(text)
        self.findings = tuple(findings)


Forbidden.__module__ = "graphsafe"  # users import the class from this module


def findings_of(events: Iterable[StepEvent], evidence: Literal["measured", "predicted"]) -> list[Finding]:
    """Return one finding for each code and line, with the number of events. Events without a line have no finding."""
    book = load_rulebook()
    found: dict[tuple[str, str, int], Finding] = {}
    for event in events:
        code = code_of(event, book.ops)
        if code is None or not event.frames:
            continue
        at = location(event.frames[-1], event.span)
        key = (code, at.path, at.line)
        if key in found:
            found[key] = replace(found[key], count=found[key].count + 1)
            continue
        rule = book.rules[code]
        words = {"expr": text_at(event.frames[-1], event.span), "value": value_read(code, reader_of(event, code))}
        found[key] = replace(
            about := rule.about(at, words, event.details(), how_of(event, code, book.ops)),
            level="error",
            confidence="proven" if evidence == "measured" else "likely",
            source="capture" if evidence == "measured" else "simulate",
            region="step",
            call_chain=chain(event.frames),
            why=_TAKES_MEMORY if code == "GS401" else about.why,
        )
    return own_first(in_order(found.values()))


def message_of(
    findings: Sequence[Finding],
    events: Sequence[StepEvent],
    begun: CallSite | None,
    launched: Launches,
    most: int | None,
) -> str:
    """Return the error message: the numbers of operations, then each line as the terminal format shows it."""
    where = f"the block at {line_text(begun)}" if begun is not None else "the block"
    parts = []
    if events:
        lines_of = {(finding.location.path, finding.location.line) for finding in findings}
        parts.append(f"{count(len(events), 'forbidden operation')} on {count(len(lines_of), 'line')}")
    too_many = most is not None and launched.count > most
    if too_many:
        parts.append(f"{_launches(launched.count)}, where {most} are allowed")
    lines = [f"graphsafe.forbid: {where} has {' and '.join(parts)}"]
    if too_many:
        by_line = launched.by_line.items()
        lines += [f"  {line_text(site)}: {_launches(number)} by `{text_at(site, None)}`" for site, number in by_line]
    without = sum(not event.frames for event in events)
    if without:
        lines.append(f"{count(without, 'forbidden operation')} ran where no line of your code was running")
    if findings:
        lines += ["", render_findings(findings, file_lines, colour=False, width=_width()).rstrip()]
    return "\n".join(lines)


def _launches(number: int) -> str:
    return "1 launch" if number == 1 else f"{number} launches"
