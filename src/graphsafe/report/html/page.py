"""The page of one or more reports. Its head shows the results in tables that fit a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from graphsafe.report.capture_text import gain_text, reason, support_texts
from graphsafe.report.html.devices import devices_html
from graphsafe.report.html.filters import Filters
from graphsafe.report.html.findings import findings_html, suppressed_html
from graphsafe.report.html.words import STYLE, badge, escaped_text, page, table, words
from graphsafe.report.model import LEVELS, Finding, Report, facts_of, in_order, title_of
from graphsafe.report.no_line import unplaced_counts
from graphsafe.report.source import Lines
from graphsafe.report.text import count, level_counts, listed, part_name

_MOST = 8
"A table has at most this many rows. The list of findings below the tables is complete."


def summary_html(report: Report, shown: Sequence[Finding], suppressed: int) -> str:
    """Return the verdict, the number of findings of each code, and the files with the most findings."""
    lines = [f"<h1>{escaped_text(title_of(report))}</h1>"]
    if report.verdict is not None:
        said = {"measured": "measured", "predicted": "predicted on the simulated device; only a GPU measures"}
        evidence = f" <small>{said[report.evidence]}</small>" if report.evidence else ""
        lines.append(f"<p>{badge(report.verdict)}{evidence}</p>")
    levels = level_counts([finding.level for finding in shown])
    hidden = [f"{suppressed} suppressed"] if suppressed else []
    counts = listed([*levels, *unplaced_counts(report), *hidden]) or "No findings"
    lines += [_verdicts(report), f"<p>{counts}</p>", _codes(shown), _files(shown)]
    return f"<header>{''.join(lines)}</header>"


def _verdicts(report: Report) -> str:
    """Return a table of the verdicts of all devices and buckets with their reasons, if there are several."""
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


def render_html(reports: Sequence[Report], source: Lines) -> str:
    filters = Filters([finding for report in reports for finding in report.findings])
    body = "\n".join(_report(report, filters, source) for report in reports)
    title = ", ".join(title_of(report) for report in reports) or "graphsafe"
    return page(title, f"{STYLE}{filters.rules()}", body)


def _report(report: Report, filters: Filters, source: Lines) -> str:
    findings = in_order(report.findings)
    shown = [finding for finding in findings if finding.suppressed is None]
    suppressed = [finding for finding in findings if finding.suppressed is not None]
    parts = [summary_html(report, shown, len(suppressed)), devices_html(report)]
    if report.support is not None:
        parts.append("<h2>Support</h2>" + "".join(f"<p>{words(text)}</p>" for text in support_texts(report.support)))
    if shown:
        parts += ["<h2>Findings</h2>", findings_html(shown, filters, source)]
    if report.limits:
        rows = [(escaped_text(limit.kind), words(limit.what), words(limit.why)) for limit in report.limits]
        parts += ["<h2>Not known</h2>", table(rows)]
    if suppressed:
        parts.append(suppressed_html(suppressed, filters, source))
    parts.append(_environment(report))
    return f"<main>\n{''.join(f'{part}{chr(10)}' for part in parts if part)}</main>"


def _environment(report: Report) -> str:
    devices = listed(report.environment.devices)
    facts = {"graphsafe": None, "created": report.created, **facts_of(report), "devices": devices}
    rows = [(escaped_text(name), escaped_text(value)) for name, value in facts.items() if value]
    return "<h2>Environment</h2>" + table(rows)
