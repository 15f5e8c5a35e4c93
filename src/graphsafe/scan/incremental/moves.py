"""Where lines of a file stand after an edit that has moved its statements, and the findings that name them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from graphsafe.report.model import CallSite, Finding

LINES = re.compile(r"\.py:\d|\blines? \d|^\d+(, \d+)*$")
"Text that names lines of a file."
LAMBDA = re.compile(r"<lambda>:(\d+)")

Span = tuple[int, int]
"First and last line."


class Unclear(Exception):
    """Something names a line that may be another one now."""


class Move:
    """From the lines of a file before to those of today."""

    def __init__(self, before: Mapping[str, Span], after: Mapping[str, Span]) -> None:
        """Statements by name; both have the same ones."""
        shifts = [(*span, after[name][0] - span[0]) for name, span in before.items()]
        # Of statements inside one another the inner one tells: the outer one may have been rewritten around it.
        self._shifts = sorted(shifts, key=lambda shift: shift[1] - shift[0])

    def line(self, line: int) -> int:
        """Raises Unclear for a line of no statement."""
        for first, last, shift in self._shifts:
            if first <= line <= last:
                return line + shift
        raise Unclear

    def name(self, function: str) -> str:
        """Of a lambda, which is called by its line, or of what stands inside one. Raises Unclear."""
        return LAMBDA.sub(lambda found: f"<lambda>:{self.line(int(found[1]))}", function)


def moved(findings: Iterable[Finding], moves: Mapping[str, Move]) -> Iterator[Finding]:
    """The findings with today's lines; `moves` by absolute path. Raises Unclear."""
    for finding in findings:
        yield _moved(finding, moves)


def _moved(finding: Finding, moves: Mapping[str, Move]) -> Finding:
    at = finding.location
    move = moves.get(os.path.abspath(at.path))
    if move is None and not any(os.path.abspath(site.path) in moves for site in finding.call_chain):
        return finding
    if finding.edits or any(map(names_a_line, _texts(finding))):
        raise Unclear
    if move is not None:
        at = replace(at, line=move.line(at.line), end_line=move.line(at.end_line))
    return replace(finding, location=at, call_chain=tuple(_moved_site(site, moves) for site in finding.call_chain))


def _moved_site(site: CallSite, moves: Mapping[str, Move]) -> CallSite:
    move = moves.get(os.path.abspath(site.path))
    return site if move is None else replace(site, line=move.line(site.line))


def _texts(finding: Finding) -> Iterator[str]:
    """Where a line may be named in passing."""
    yield from (finding.message, finding.fix, *map(str, finding.data.values()))
    yield finding.location.function or ""
    yield from (site.function or "" for site in finding.call_chain)


def names_a_line(text: str) -> bool:
    """A lambda is called by its line."""
    return "<lambda>" in text or LINES.search(text) is not None
