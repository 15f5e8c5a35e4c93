"""Applies a baseline to a scan's report, and writes a new baseline."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from graphsafe.baseline.baseline_file import BaselineError, read_baseline, write_baseline
from graphsafe.baseline.matching import STALE, Scope, matched, recorded, without_known
from graphsafe.config import Config
from graphsafe.files import from_here, leads_out
from graphsafe.report.model import Confidence, Report
from graphsafe.report.source import Lines
from graphsafe.rulebook.book import Rulebook
from graphsafe.scan.linting.selection import Selection


def scope(paths: Sequence[Path], config: Config, rulebook: Rulebook, confidence: Confidence) -> Scope:
    """Return the extent of a scan of `paths`."""
    selection = Selection.of(config, rulebook)

    def is_judged(code: str, path: str) -> bool:
        # No rule with an unknown code can be selected, so an entry with an unknown code is always stale.
        return code not in rulebook.rules or selection.is_enabled(code, path)

    return Scope(config.root, [path.resolve() for path in paths], is_judged, confidence == "possible")


def apply(report: Report, file: Path, scope: Scope, rulebook: Rulebook, *, must_exist: bool, source: Lines) -> Report:
    """Return the report without known findings, or unchanged if there is no baseline file. Raises BaselineError."""
    entries = read_baseline(file)
    shown = from_here(str(file))
    if entries is None:
        if must_exist:
            raise BaselineError(f"{shown}: no such file; `graphsafe scan --write-baseline` writes one")
        return report
    stale = rulebook.rules[STALE] if scope.is_enabled(STALE, "") else None
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return without_known(report, matched(report, entries, scope, source), shown, stale, today)


def check_place(file: Path, root: Path) -> None:
    """Raise BaselineError if the baseline file is a link to a place outside its project folder, `root`."""
    if leads_out(file, root):
        raise BaselineError(f"{from_here(str(file))}: points outside the project; give --baseline to write it")


def write(report: Report, file: Path, scope: Scope) -> tuple[int, int, int]:
    """Record the report's findings. Entries that the scan does not cover are kept. Raises BaselineError.

    Return how many findings the file has, how many of them are new, and how many findings of the old file were not
    found.
    """
    before = read_baseline(file) or []
    matches = matched(report, before, scope)
    entries = recorded(matches)
    write_baseline(file, entries)
    new = sum(entry is None and finding.suppressed is None for finding, _, entry in matches.held)
    known, findings = (sum(entry.count for entry in each) for each in (before, entries))
    return findings, new, known + new - findings
