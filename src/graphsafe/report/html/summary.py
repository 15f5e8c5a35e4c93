"""The head of a page: the results, in a table that fits a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from graphsafe.report.capture_text import gain_text, reason
from graphsafe.report.html.words import badge, escaped_text, table, words
from graphsafe.report.model import LEVELS, Finding, Report, title_of
from graphsafe.report.text import count, level_counts, listed, part_name

_MOST = 8
"Number of rows in a table; the findings below are complete."


def summary_html(report: Report, shown: Sequence[Finding], suppressed: int) -> str:
    """Return the verdict, how many findings of which codes there are, and the files with the most findings."""
    lines = [f"<h1>{escaped_text(title_of(report))}</h1>"]
    if report.verdict is not None:
        said = {"measured": "measured", "predicted": "predicted on the simulated device; only a GPU measures"}
        evidence = f" <small>{said[report.evidence]}</small>" if report.evidence else ""
        lines.append(f"<p>{badge(report.verdict)}{evidence}</p>")
    lines += [_verdicts(report), f"<p>{_counts(shown, suppressed)}</p>", _codes(shown), _files(shown)]
    return f"<header>{''.join(lines)}</header>"


def _counts(shown: Sequence[Finding], suppressed: int) -> str:
    return listed([*level_counts(shown), *([f"{suppressed} suppressed"] if suppressed else [])]) or "No findings"


def _verdicts(report: Report) -> str:
    """Return the verdict of each device and bucket with its reason, if there are several."""
    rows = []
    for device in report.devices or ():
        for part in device.parts:
            why = reason(part.probes, report.plan, part.verdict)
            why += gain_text(part.probes) if device.buckets else ""
            rows.append((escaped_text(part_name(device, part)), badge(part.verdict), words(why)))
    return table(rows) if len(rows) > 1 else ""


def _codes(shown: Sequence[Finding]) -> str:
    counts = Counter((finding.code, finding.rule, finding.level) for finding in shown)
    if len(shown) <= 1:
        return ""
    order = sorted(counts, key=lambda one: (-LEVELS.index(one[2]), -counts[one], one))
    rows = []
    for code, rule, level in order:
        name = f'<span class="{level}">{escaped_text(code)}</span>'
        rows.append((name, str(counts[code, rule, level]), level, escaped_text(rule)))
    return table(rows)


def _files(shown: Sequence[Finding]) -> str:
    counts = Counter(finding.location.path for finding in shown)
    if len(counts) <= 1:
        return ""
    most = sorted(counts, key=lambda path: (-counts[path], path))
    rows = [(str(counts[path]), f"<code>{escaped_text(path)}</code>") for path in most[:_MOST]]
    more = f"<p>and {count(len(most) - _MOST, 'more file')}</p>" if len(most) > _MOST else ""
    return f"{table(rows)}{more}"
