"""Compares a scan's predictions with reports of captures: `graphsafe scan --with report.json`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from graphsafe.errors import RequestError
from graphsafe.files import from_here, saved
from graphsafe.report.executed import ExecutedFile, HotLines, digest
from graphsafe.report.fingerprint import same_cause
from graphsafe.report.json_form import read_reports
from graphsafe.report.model import Finding, JoinStatus, Report
from graphsafe.report.text import count
from graphsafe.scan.sources.source import MAX_BYTES

_STRONGEST: tuple[JoinStatus, ...] = ("confirmed", "refuted", "not-executed")
"""The statuses in order of precedence. If several runs disagree about a prediction, the first of their statuses is
given to it.

If one run has seen a fault, the fault exists, even if the other runs have not seen it.
"""


def captures_in(paths: Sequence[Path]) -> list[Report]:
    """Return the reports of captures that are in files. Raises RequestError."""
    found = [report for path in paths for report in read_reports(path)]
    if any(report.command != "capture" for report in found):
        raise RequestError("scan --with: give reports of graphsafe capture")
    return found


def confirmed(report: Report, captures: Sequence[Report], hot: Mapping[str, Collection[tuple[int, int]]]) -> Report:
    """Return the report with the status that the runs give to each finding.

    The runs prove nothing for other inputs.
    """
    known = frozenset(finding.fingerprint for finding in report.findings)
    findings = [replace(finding, status=_status(finding, captures, known)) for finding in report.findings]
    return replace(report, findings=tuple(findings), hot_lines=_hot_lines(captures, hot))


def summary(report: Report) -> str:
    """Return in one line how many predictions the runs confirmed, refuted and never reached."""
    statuses = Counter(finding.status for finding in report.findings)
    parts = [f"{statuses['confirmed']} confirmed", f"{statuses['refuted']} refuted"]
    parts.append(f"{statuses['not-executed']} never reached")
    parts += [f"{statuses[None]} that a run cannot decide"] if statuses[None] else []
    covered = f"; {report.hot_lines.text()}" if report.hot_lines is not None else ""
    return f"{count(len(report.findings), 'prediction')}: {', '.join(parts)}{covered}"


def _hot_lines(captures: Sequence[Report], hot: Mapping[str, Collection[tuple[int, int]]]) -> HotLines | None:
    """Count the hot statements that ran. Return None if no report says which lines ran."""
    if all(report.executed is None for report in captures):
        return None
    executed: dict[str, list[ExecutedFile]] = {}
    for report in captures:
        for file in report.executed or ():
            executed.setdefault(os.path.abspath(file.path), []).append(file)
    total = ran = 0
    changed = []
    for path, statements in hot.items():
        told = executed.get(path, [])
        content = saved(path, MAX_BYTES) if told else None
        same = [file for file in told if content is not None and file.digest == digest(content)]
        if told and not same:
            changed.append(from_here(path))
            continue
        total += len(statements)
        ran += sum(any(run.meets(*lines) for file in same for run in file.lines) for lines in statements)
    return HotLines(total, ran, tuple(sorted(changed)))


def _status(prediction: Finding, captures: Sequence[Report], known: frozenset[str]) -> JoinStatus | None:
    """Return the status that the runs together give to a prediction.

    Return None if the runs reached the predicted line but cannot detect faults of this kind. Also return None if the
    step of a run failed, because the lines that it reached are then unknown.
    """
    found = [one for report in captures for one in report.findings if _is_about(one, prediction, known)]
    said = ["confirmed" if one.source != "scan" else one.status for one in found]
    decided = [status for status in said if status is not None]
    if decided:
        return min(decided, key=_STRONGEST.index)
    return None if said or any(report.executed is None for report in captures) else "not-executed"


def _is_about(seen: Finding, prediction: Finding, known: frozenset[str]) -> bool:
    """Return whether a finding of a run is about a prediction.

    The finding is about the prediction if their fingerprints are equal. Fingerprints stay the same when lines move. If
    no prediction has the finding's fingerprint, the finding may also be about a prediction of another rule on the same
    line.
    """
    if seen.fingerprint in known:
        return seen.fingerprint == prediction.fingerprint
    return seen.source != "scan" and same_cause(prediction, seen)
