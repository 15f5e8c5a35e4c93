"""Joins prediction and proof. If the function around a finding of scan ran, the observations of capture confirm or
refute the finding."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from graphsafe.capture.parent.chain_that_ran import body_ran, with_chain_that_ran
from graphsafe.capture.shared.classify import function_at
from graphsafe.config import Config
from graphsafe.files import from_here, import_folder, read_regular
from graphsafe.report.executed import ExecutedFile, digest, runs_of
from graphsafe.report.fingerprint import same_cause
from graphsafe.report.model import LEVELS, Finding, JoinStatus, Level, Limit, Location, Suppression
from graphsafe.scan.sources.source import MAX_BYTES, Unreadable, read
from graphsafe.scan.sources.suppress import Comment, comments

_SEEN_BY_REPLAY = ("GS608",)
"""Rules whose faults always show in a comparison of replays with eager steps. If the step is ready, a prediction of
such a rule is refuted."""

_SEEN_BY_STEP = ("GS1", "GS2", "GS3", "GS401", "GS402", "GS701", "GS702", "GS703")
"""Families of rules whose faults always show in a step that runs. If capture does not see such a fault, the prediction
is refuted."""


class Predictions:
    """The findings of scan, cached for the targets of one command, because many of these targets are in the same
    file."""

    def __init__(self) -> None:
        self._made: list[tuple[list[Path], Config, Sequence[Finding]]] = []

    def of(self, files: list[Path], config: Config) -> Sequence[Finding]:
        """Return the findings of scan in these files."""
        from graphsafe.scan.api import scan_paths

        for known, given, findings in self._made:
            if known == files and given == config:
                return findings
        found = scan_paths(files, config, confidence="likely").findings
        self._made.append((files, config, found))
        return found


def joined(
    findings: Sequence[Finding],
    lines: Mapping[str, Iterable[int]],
    config: Config,
    ready: bool,
    predictions: Predictions,
) -> tuple[list[Finding], list[Limit]]:
    """Return capture's findings with their status, then the findings that only scan has. `lines` maps each file of the
    project to its lines that ran."""
    ran = {from_here(file): set(numbers) for file, numbers in lines.items()}
    files = [Path(file) for file in lines]
    if not files:
        return list(findings), []
    try:
        predicted = predictions.of(sorted(files), config)
    except ImportError as error:
        return list(findings), [Limit("join", "scan", f"scan could not be loaded: {error}")]
    except Exception as error:  # the measured results must not be lost if scan fails
        return list(findings), [Limit("join", "scan", f"scan failed: {type(error).__name__}: {error}")]
    proven = list(findings)
    alone: list[Finding] = []
    for prediction in predicted:
        matches = [index for index, finding in enumerate(proven) if same_cause(prediction, finding)]
        for index in matches:
            finding = proven[index]
            proven[index] = replace(
                finding, status="confirmed", edits=prediction.edits, suppressed=prediction.suppressed
            )
        if not matches and _function_ran(prediction.location, ran):
            alone.append(_judged(with_chain_that_ran(prediction, ran), ran, ready))
    proven, used = with_comments(proven)
    return [*proven, *(one for one in alone if one.code != "GS901" or _line(one) not in used)], []


def with_comments(findings: Iterable[Finding]) -> tuple[list[Finding], set[tuple[str, int]]]:
    """Return the findings. A finding is suppressed if a comment on its line says so. Also return file and line of each
    comment that suppresses a finding."""
    notes: dict[str, list[Comment]] = {}
    found: list[Finding] = []
    used = set[tuple[str, int]]()
    for finding in findings:
        at = finding.location
        if at.path not in notes:
            notes[at.path] = _comments_in(at.path)
        near = (one for one in notes[at.path] if one.stands_for(at.line, at.end_line))
        here = [one for one in near if one.covers(finding.code)]
        if here and finding.suppressed is None:
            finding = replace(finding, suppressed=Suppression(here[0].reason))
            used.add((at.path, here[0].line))
        found.append(finding)
    return found, used


def _comments_in(path: str) -> list[Comment]:
    try:
        return comments(read(Path(path)))
    except (OSError, Unreadable):
        return []


def _line(finding: Finding) -> tuple[str, int]:
    return finding.location.path, finding.location.line


def executed_files(lines: Mapping[str, Iterable[int]]) -> tuple[ExecutedFile, ...]:
    """Return the lines of the project that ran. A later scan compares them with the lines that it expects a step to
    run."""
    found = []
    for file, numbers in sorted(lines.items()):
        with contextlib.suppress(OSError):
            found.append(ExecutedFile(from_here(file), digest(read_regular(file, MAX_BYTES)), runs_of(numbers)))
    return tuple(found)


def of_project(lines: Mapping[str, set[int]], target: str) -> dict[str, set[int]]:
    """Return the lines of files that belong to the project. These files are below the working directory, or below the
    folder from which the target's file is imported. Installed libraries do not belong to the project."""
    file = Path(target.rpartition(":")[0])
    folder = import_folder(file) if file.suffix == ".py" else Path()
    below = tuple(f"{os.path.abspath(one)}{os.sep}" for one in (Path(), folder))
    return {
        file: numbers
        for file, numbers in lines.items()
        if os.path.abspath(file).startswith(below) and "site-packages" not in Path(file).parts
    }


def _function_ran(at: Location, ran: Mapping[str, set[int]]) -> bool:
    """Return whether the function around a place ran. If that function did not run, a finding there does not concern
    this step."""
    around = function_at(at.path, at.line)
    return around is not None and body_ran(around, ran.get(at.path, set()))


def _judged(prediction: Finding, ran: Mapping[str, set[int]], ready: bool) -> Finding:
    at = prediction.location
    executed = any(line in ran.get(at.path, ()) for line in range(at.line, at.end_line + 1))
    status: JoinStatus | None
    most: Level
    if not executed:
        status, most = "not-executed", "note" if ready else "warning"
    elif prediction.code.startswith(_SEEN_BY_STEP) or (ready and prediction.code in _SEEN_BY_REPLAY):
        status, most = "refuted", "note"
    else:
        # Replays have proved that the fault is harmless in this step.
        status, most = None, "warning" if ready else prediction.level
    level: Level = min(prediction.level, most, key=LEVELS.index)
    return replace(prediction, status=status, level=level)
