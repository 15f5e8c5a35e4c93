"""Finds the files that have changed since a report was saved."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from graphsafe.report.fingerprint import fingerprint
from graphsafe.report.model import Finding, grouped
from graphsafe.report.source import Lines, line_of

_MOST_EQUAL_LINES = 32
"""A fingerprint contains a number that counts equal lines in a function, from 0. Only numbers below this one are tried;
otherwise the line counts as changed."""


def changed_files(findings: Iterable[Finding], lines: Lines) -> set[str]:
    """Return the paths of files that can be read, but whose lines differ from those in a saved report's findings.

    `lines` returns the lines of a file as it is now. A fingerprint includes the text of a finding's line, so it tells
    whether the file still has this text there. If a line differs, the lines after it may have moved, so no line of the
    file should be shown.
    """
    return {
        path
        for path, group in grouped(findings, lambda finding: finding.location.path).items()
        if (now := lines(path)) is not None and not all(_has_text(f, line_of(now, f.location.line)) for f in group)
    }


def _has_text(finding: Finding, text: str) -> bool:
    """Return whether a finding's fingerprint was made from this text.

    The path in the fingerprint was relative to the project's root. A report does not contain this root, so every folder
    above the file is tried as the root.
    """
    at = finding.location
    parts = Path(os.path.abspath(at.path)).parts
    paths = [at.path, *("/".join(parts[start:]) for start in range(1, len(parts)))]
    return any(
        fingerprint(finding.code, path, at.function, text, ordinal) == finding.fingerprint
        for ordinal in range(_MOST_EQUAL_LINES)
        for path in paths
    )
