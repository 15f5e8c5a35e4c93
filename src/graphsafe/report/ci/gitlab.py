"""GitLab's code quality report: a list of issues. No two issues have the same fingerprint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from graphsafe.report.json_form import escaped
from graphsafe.report.model import Finding, Level, Report, unsuppressed, with_fix

_SEVERITIES: Mapping[Level, str] = {"error": "major", "warning": "minor", "note": "info"}


def render_gitlab(reports: Sequence[Report]) -> str:
    """Return one issue for each fingerprint.

    If several devices or targets report a finding, the issue describes the first one.
    """
    issues: dict[str, dict[str, Any]] = {}
    for report in reports:
        for finding in unsuppressed(report):
            issues.setdefault(finding.fingerprint, _issue(finding))
    return escaped(json.dumps(list(issues.values()), indent=2, ensure_ascii=False)) + "\n"


def _issue(finding: Finding) -> dict[str, Any]:
    at = finding.location
    return {
        "description": with_fix(finding),
        "check_name": f"{finding.code} {finding.rule}",
        "fingerprint": finding.fingerprint,
        "severity": _SEVERITIES[finding.level],
        "location": {"path": at.path, "lines": {"begin": at.line, "end": at.end_line}},
    }
