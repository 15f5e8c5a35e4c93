"""Joins the notes about fresh buffers (GS401) to one line per file, after all other findings.

Allocations do not prevent a capture. Often many lines allocate, and a single repair can remove all these allocations.
So formats for people do not show each note. If the configuration raises the level of GS401, its findings are shown like
all others. Formats for programs keep each note.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphsafe.report.model import Finding, grouped
from graphsafe.report.text import count, listed

FOLDED = "GS401"
_MOST_LINES = 8


def is_folded(finding: Finding) -> bool:
    return finding.code == FOLDED and finding.level == "note"


def folded(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with the notes about fresh buffers last.

    Several notes about one file become one note. It has the location of the first note and names the lines of the
    others.
    """
    kept, notes = [[one for one in findings if is_folded(one) is folds] for folds in (False, True)]
    return [*kept, *map(_one, grouped(notes, lambda note: note.location.path).values())]


def further_lines(findings: Sequence[Finding]) -> str:
    """Return the lines of all findings but the first, as in `and lines 8 and 20`. Return "" if there are none."""
    _, *others = sorted({finding.location.line for finding in findings})
    return f"and line{'s' * (len(others) > 1)} {listed(map(str, others), most=_MOST_LINES)}" if others else ""


def _one(findings: Sequence[Finding]) -> Finding:
    places = {finding.location: finding for finding in findings}
    if len(places) == 1:
        return findings[0]
    further = further_lines(findings)
    text = f"{count(len(places), 'fresh buffer')} every step, here" + (f" {further}" if further else "")
    status = findings[0].status if len({finding.status for finding in findings}) == 1 else None
    return replace(findings[0], message=text, status=status)
