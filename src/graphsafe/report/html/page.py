"""The page of a report, or of several."""

from __future__ import annotations

from collections.abc import Sequence

from graphsafe.report.html.devices import devices_html
from graphsafe.report.html.filters import Filters
from graphsafe.report.html.findings import findings_html, suppressed_html
from graphsafe.report.html.style import STYLE
from graphsafe.report.html.summary import summary_html
from graphsafe.report.html.words import escaped_text, page, table, words
from graphsafe.report.model import Report, facts_of, in_order, title_of
from graphsafe.report.source import Lines
from graphsafe.report.support_text import support_texts
from graphsafe.report.text import listed


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
    facts = {
        "graphsafe": None,
        "created": report.created,
        **facts_of(report),
        "devices": listed(report.environment.devices),
    }
    rows = [(escaped_text(name), escaped_text(value)) for name, value in facts.items() if value]
    return "<h2>Environment</h2>" + table(rows)
