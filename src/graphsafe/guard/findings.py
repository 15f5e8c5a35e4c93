"""Turns the events of a forbidden block into findings, in the words of the rulebook, and into the text of its error."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.shared.classify import code_of, value_read
from graphsafe.capture.shared.places import chain, location, shown, text_at
from graphsafe.guard.failed import own_first
from graphsafe.report.model import CallSite, Finding, in_order
from graphsafe.report.source import file_lines
from graphsafe.report.terminal import render_findings
from graphsafe.report.text import count
from graphsafe.rulebook.book import load_rulebook

_TAKES_MEMORY = (
    "Every block that is taken from the device's allocator counts here, the result of an operation too. What the block "
    "needs must be there before it."
)


class Forbidden(AssertionError):
    """A block did something that `graphsafe.forbid` forbids. `findings` are its lines, the user's own before
    libraries'."""

    def __init__(self, text: str, findings: Sequence[Finding]) -> None:
        super().__init__(text)
        self.findings = tuple(findings)


Forbidden.__module__ = "graphsafe"  # users import the class under this module's name


def findings_of(events: Iterable[StepEvent], evidence: Literal["measured", "predicted"]) -> list[Finding]:
    """Return one finding for each code and line, with how often it happened. Events without a line have none."""
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
        words = {"expr": text_at(event.frames[-1], event.span), "value": value_read(code)}
        found[key] = Finding(
            code=code,
            rule=rule.name,
            level="error",
            confidence="proven" if evidence == "measured" else "likely",
            source="capture" if evidence == "measured" else "simulate",
            device=None,
            location=at,
            region="step",
            call_chain=chain(event.frames),
            message=rule.message.format_map(words),
            why=_TAKES_MEMORY if code == "GS401" else rule.short_why,
            fix=rule.fix_short.format_map(words),
            data=event.details(),
        )
    return own_first(in_order(found.values()))


def message_of(
    findings: Sequence[Finding], events: Sequence[StepEvent], begun: CallSite | None, launched: int, most: int | None
) -> str:
    """Return the error's text: the numbers, then each line as the terminal form shows it."""
    where = f"the block at {shown(begun.path)}:{begun.line}" if begun is not None else "the block"
    parts = []
    if events:
        parts.append(f"{count(len(events), 'forbidden operation')} on {count(len(findings), 'line')}")
    if most is not None and launched > most:
        parts.append(f"{count(launched, 'launch')}, where {most} are allowed".replace("launchs", "launches"))
    lines = [f"graphsafe.forbid: {where} has {' and '.join(parts)}"]
    without = sum(not event.frames for event in events)
    if without:
        lines.append(f"{count(without, 'forbidden operation')} ran where no line of your code was running")
    if findings:
        width = min(max(shutil.get_terminal_size().columns - 4, 60), 120)
        lines += ["", render_findings(findings, file_lines, colour=False, width=width).rstrip()]
    return "\n".join(lines)
