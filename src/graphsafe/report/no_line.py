"""Findings whose line is unknown.

They are listed among the limits, with the kind `no-line`: `GS711 outside-memory-lost`, or `GS605
swallowed-capture-failure (warning)`. All formats count such findings, so that a report with one of them does not seem
clean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphsafe.report.model import LEVELS, Level, Limit, Report, unsuppressed
from graphsafe.report.text import count, level_counts, listed

_KIND = "no-line"


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A finding without a line."""

    code: str
    rule: str
    level: Level
    message: str

    @property
    def text(self) -> str:
        return f"{self.code} {self.message} (its line is not known)"


def without_line(code: str, rule: str, level: Level, message: str) -> Limit:
    """Return the limit that stands for a finding without a line."""
    return Limit(_KIND, f"{code} {rule}" + ("" if level == "error" else f" ({level})"), message)


def unplaced(limits: Iterable[Limit]) -> list[Unplaced]:
    """Return the findings without a line that are among the limits, the most severe first."""
    found = []
    for limit in limits:
        if limit.kind != _KIND:
            continue
        code, _, rest = limit.what.partition(" ")
        rule, _, said = rest.removesuffix(")").partition(" (")
        level = next((one for one in LEVELS if one == said), None)
        found.append(Unplaced(code, rule, level or "error", limit.why))
    return sorted(found, key=lambda one: -LEVELS.index(one.level))


def unplaced_counts(report: Report) -> list[str]:
    """Return `["1 error and 1 warning without a line"]`, or an empty list if there are none."""
    levels = [one.level for one in unplaced(report.limits)]
    return [f"{listed(level_counts(levels))} without a line"] if levels else []


def totals(report: Report) -> str:
    """Return `3 errors and 1 note in 2 files, and 1 error without a line`, or "" if there is no finding."""
    shown = unsuppressed(report)
    files = count(len({finding.location.path for finding in shown}), "file")
    placed = [f"{listed(level_counts([finding.level for finding in shown]))} in {files}"] if shown else []
    return ", and ".join([*placed, *unplaced_counts(report)])
