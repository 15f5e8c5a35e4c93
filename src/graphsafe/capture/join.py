"""Where prediction meets proof: what scan says of the functions that ran, confirmed or refuted by what capture saw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphsafe.capture.classify import functions_of
from graphsafe.capture.lines.places import shown
from graphsafe.report.model import Finding, JoinStatus, Level, Limit, Location

if TYPE_CHECKING:
    from graphsafe.config import Config

_SEEN_BY_STEP = ("GS1", "GS2", "GS3", "GS401", "GS402", "GS701", "GS702", "GS703")
"Families that a step which ran shows, if they are there: their absence refutes."


def joined(
    findings: Sequence[Finding], lines: Mapping[str, Iterable[int]], config: Config
) -> tuple[list[Finding], list[Limit]]:
    """Capture's findings with their status, then what only scan says. `lines`: file -> the lines that ran."""
    ran = {shown(file): set(numbers) for file, numbers in lines.items()}
    files = [
        Path(file) for file in lines if not shown(file).startswith("..") and "site-packages" not in Path(file).parts
    ]
    if not files:
        return list(findings), []
    try:
        from graphsafe.scan.api import scan_paths
    except ImportError as error:
        return list(findings), [Limit("join", "scan", f"scan could not be loaded: {error}")]
    try:
        predicted = scan_paths(files, config, confidence="likely").findings
    except Exception as error:  # what was measured must not be lost to a fault in scan
        return list(findings), [Limit("join", "scan", f"scan failed: {type(error).__name__}: {error}")]
    proven = list(findings)
    alone: list[Finding] = []
    for prediction in predicted:
        matches = [index for index, finding in enumerate(proven) if _same_cause(prediction, finding)]
        for index in matches:
            finding = proven[index]
            proven[index] = replace(
                finding, status="confirmed", edits=prediction.edits, suppressed=prediction.suppressed
            )
        if not matches and _function_ran(prediction.location, ran):
            alone.append(_judged(prediction, ran))
    return [*proven, *alone], []


def _same_cause(prediction: Finding, finding: Finding) -> bool:
    """The same code on the same line, or another code of the same line's host reads, extents and copies; of streams and
    state, which no single line holds, the same code in the same function."""
    here, there = prediction.location, finding.location
    if prediction.code == finding.code and prediction.code.startswith(("GS6", "GS7")):
        return (here.path, here.function) == (there.path, there.function)
    if here.path != there.path or not here.line <= there.line <= max(here.line, here.end_line):
        return False
    if prediction.code == finding.code:
        return True
    return all(code[:3] in ("GS1", "GS2", "GS3") for code in (prediction.code, finding.code))


def _function_ran(at: Location, ran: Mapping[str, set[int]]) -> bool:
    """Whether any line of the body of the function around a place ran; others say nothing of this step."""
    around = [node for node in functions_of(at.path) if node.lineno <= at.line <= (node.end_lineno or node.lineno)]
    if not around:
        return False
    inner = max(around, key=lambda node: node.lineno)
    body = range(inner.body[0].lineno, (inner.end_lineno or inner.lineno) + 1)
    return any(line in ran.get(at.path, ()) for line in body)


def _judged(prediction: Finding, ran: Mapping[str, set[int]]) -> Finding:
    at = prediction.location
    executed = any(line in ran.get(at.path, ()) for line in range(at.line, at.end_line + 1))
    status: JoinStatus | None
    most: Level
    if not executed:
        status, most = "not-executed", "warning"
    elif prediction.code.startswith(_SEEN_BY_STEP):
        status, most = "refuted", "note"
    else:
        status, most = None, prediction.level
    level: Level = min(prediction.level, most, key=("note", "warning", "error").index)
    return replace(prediction, status=status, level=level)
