"""The output format `concise`, with one line per finding, for editors and grep: `path:line:col: CODE message`.

For a warning or a note, the level stands between the code and the message. The mark that a run gave to a prediction
(`confirmed`, `refuted` or `not-executed`) stands at the end. Fresh buffers come last, with one line per file.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphsafe.report.fresh_buffers import folded
from graphsafe.report.model import Report, unsuppressed
from graphsafe.report.no_line import unplaced
from graphsafe.report.text import printable


def render_concise(reports: Sequence[Report]) -> str:
    """Return the unsuppressed findings, one per line.

    A finding without a location begins with the target's name. A capture's verdict follows its findings as `target:
    verdict`, with the reason if no finding gives it.
    """
    from graphsafe.report.capture_text import verdict_text

    lines = []
    for report in reports:
        for finding in folded(unsuppressed(report)):
            at = finding.location
            # Programs that read this format treat a finding as an error, so the level is written only for warnings and
            # notes.
            level = "" if finding.level == "error" else f"{finding.level}: "
            mark = f" ({finding.status})" if finding.status else ""
            lines.append(f"{at.path}:{at.line}:{at.column}: {finding.code} {level}{finding.message}{mark}")
        target = report.called or "graphsafe"
        lines += [f"{target}: {one.text}" for one in unplaced(report.limits) if one.level != "note"]
        if report.verdict is not None:
            lines.append(verdict_text(report))
    return "".join(f"{printable(line)}\n" for line in dict.fromkeys(lines))
