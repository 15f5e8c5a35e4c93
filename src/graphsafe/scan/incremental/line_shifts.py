"""Findings after an edit that has moved statements of a file to other lines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from graphsafe.report.model import CallSite, Finding

LINES = re.compile(r"\.py:\d|\blines? \d|^\d+(, \d+)*$")
"Text that names lines of a file."

Span = tuple[int, int]
"First and last line."


class Unclear(Exception):
    """Something names a line that may be another one now."""


class LineShift:
    """From the lines of a file before to those of today."""

    def __init__(self, before: Mapping[str, Span], after: Mapping[str, Span]) -> None:
        """Statements by name; both have the same ones."""
        shifts = [(*span, after[name][0] - span[0]) for name, span in before.items()]
        # The innermost statement counts: those around it may have been rewritten.
        self._shifts = sorted(shifts, key=lambda shift: shift[1] - shift[0])

    def line(self, line: int) -> int:
        """Raises Unclear for a line of no statement."""
        for first, last, shift in self._shifts:
            if first <= line <= last:
                return line + shift
        raise Unclear


def shifted(findings: Iterable[Finding], shifts: Mapping[str, LineShift]) -> Iterator[Finding]:
    """The findings with today's lines; `shifts` by absolute path. Raises Unclear."""
    for finding in findings:
        yield _shifted(finding, shifts)


def _shifted(finding: Finding, shifts: Mapping[str, LineShift]) -> Finding:
    at = finding.location
    shift = shifts.get(os.path.abspath(at.path))
    if shift is None and not any(os.path.abspath(site.path) in shifts for site in finding.call_chain):
        return finding
    if finding.edits or any(map(_names_a_line, _texts(finding, is_edited=shift is not None))):
        raise Unclear
    if shift is not None:
        at = replace(at, line=shift.line(at.line), end_line=shift.line(at.end_line))
    return replace(finding, location=at, call_chain=tuple(_shifted_site(site, shifts) for site in finding.call_chain))


def _shifted_site(site: CallSite, shifts: Mapping[str, LineShift]) -> CallSite:
    shift = shifts.get(os.path.abspath(site.path))
    return site if shift is None else replace(site, line=shift.line(site.line))


def _texts(finding: Finding, is_edited: bool) -> Iterator[str]:
    """Where a line may be named in passing; `is_edited`: whether its own file is."""
    # The lines that use a number stand in the file that writes it.
    data = (str(value) for name, value in finding.data.items() if is_edited or name != "uses")
    yield from (finding.message, finding.fix, *data)
    yield finding.location.function or ""
    yield from (site.function or "" for site in finding.call_chain)


def _names_a_line(text: str) -> bool:
    """A lambda is called by its line."""
    return "<lambda>" in text or LINES.search(text) is not None
