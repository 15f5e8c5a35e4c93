"""The output format `concise`, one line per finding, for editors and grep: `path:line:col: CODE message`. A warning or
note has its level between code and message. Fresh buffers come last, one line per file."""

from __future__ import annotations

from collections.abc import Sequence

from graphsafe.report.fresh_buffers import folded
from graphsafe.report.model import Report, unsuppressed
from graphsafe.report.no_line import unplaced
from graphsafe.report.text import printable


def render_concise(reports: Sequence[Report]) -> str:
    """Return unsuppressed findings. A finding without a line begins with the target's name. A capture's verdict follows
    its findings, as `target: verdict`, with the reason if there is no finding."""
    from graphsafe.report.capture_text import verdict_text

    lines = []
    for report in reports:
        for finding in folded(unsuppressed(report)):
            at = finding.location
            # Readers expect an error on such a line, so only warnings and notes name their level.
            level = "" if finding.level == "error" else f"{finding.level}: "
            lines.append(f"{at.path}:{at.line}:{at.column}: {finding.code} {level}{finding.message}")
        target = report.target or "graphsafe"
        lines += [f"{target}: {one.text}" for one in unplaced(report.limits) if one.level != "note"]
        if report.verdict is not None:
            lines.append(verdict_text(report))
    return "".join(f"{printable(line)}\n" for line in dict.fromkeys(lines))
