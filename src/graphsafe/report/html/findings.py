"""The findings of a page: first the findings to act on, then folded fresh buffers (GS401), then suppressed findings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from graphsafe.report.fresh_buffers import FOLDED, is_folded
from graphsafe.report.html.filters import Filters
from graphsafe.report.html.words import escaped_text, paragraphs, words
from graphsafe.report.model import CallSite, Finding
from graphsafe.report.source import Lines
from graphsafe.report.text import count

_CONTEXT = 2
"""The number of lines of code that are shown before and after the finding's lines."""
_FEW = 3
"At most this many fresh buffers are shown without folding."


def findings_html(shown: Sequence[Finding], filters: Filters, source: Lines) -> str:
    """Return the filters and the findings, in order. If there are many notes about fresh buffers, they are
    folded."""
    fresh = [finding for finding in shown if is_folded(finding)]
    folded = fresh if len(fresh) > _FEW else []
    first = [finding for finding in shown if not (folded and is_folded(finding))]
    parts = [filters.boxes(shown), _articles(first, filters, source)]
    if folded:
        files = len({finding.location.path for finding in folded})
        title = f"{FOLDED}: {count(len(folded), 'fresh buffer')} in {count(files, 'file')}"
        parts.append(
            f'<details class="{filters.classes(*folded)}"><summary>{title}</summary>'
            f"{_articles(folded, filters, source)}</details>"
        )
    total = count(len(first), "finding")
    total += f", and {count(len(folded), 'fresh buffer')} folded below" if folded else ""
    return f'<div class="found">{"".join(parts)}<p class="shown">{total}</p></div>'


def suppressed_html(suppressed: Sequence[Finding], filters: Filters, source: Lines) -> str:
    title = f"<summary>{count(len(suppressed), 'suppressed finding')}</summary>"
    return f'<details class="suppressed">{title}{_articles(suppressed, filters, source)}</details>'


def _articles(findings: Sequence[Finding], filters: Filters, source: Lines) -> str:
    """Return one section per file, because a browser hides one section faster than thousands of findings."""
    parts = []
    for path, group in groupby(findings, lambda finding: finding.location.path):
        lines = source(path)
        articles = "".join(_article(finding, filters.classes(finding), lines) for finding in group)
        parts.append(f'<section class="{filters.of_file(path)}">{articles}</section>')
    return "".join(parts)


def _article(finding: Finding, classes: str, lines: Sequence[str] | None) -> str:
    at = finding.location
    about = [
        f"<code>{escaped_text(f'{at.path}:{at.line}')}</code>"
        + (f" in <code>{escaped_text(at.function)}</code>" if at.function else ""),
        finding.confidence + (f" on {escaped_text(finding.device)}" if finding.device else ""),
        *([finding.status] if finding.status else []),
        *([f"{finding.count} times"] if finding.count > 1 else []),
    ]
    parts = [
        f"<h4><span>{escaped_text(finding.code)} {finding.level}:</span> {words(finding.message)}</h4>",
        f'<p class="about">{", ".join(about)}</p>',
        _frame(finding, lines),
    ]
    if finding.suppressed is not None:
        parts.append(f"<p><b>Suppressed:</b> {words(finding.suppressed.reason or 'no reason given')}</p>")
    more = [_chain(finding.call_chain, finding.further_roots)]
    more += [
        f"<p><b>{label}:</b> {paragraphs(text)}</p>"
        for label, text in (("Why", finding.why), ("Fix", finding.fix))
        if text
    ]
    if any(more):
        parts.append(f"<details><summary>why, and how to fix it</summary>{''.join(more)}</details>")
    return f'<article class="{finding.level} {classes}">{"".join(parts)}</article>'


def _frame(finding: Finding, lines: Sequence[str] | None) -> str:
    at = finding.location
    if lines is None or not 0 < at.line <= len(lines):
        return ""
    rows = []
    for number in range(max(at.line - _CONTEXT, 1), min(at.end_line + _CONTEXT, len(lines)) + 1):
        text = lines[number - 1]
        start = at.column - 1 if number == at.line else 0
        end = at.end_column - 1 if number == at.end_line else len(text)
        if at.line <= number <= at.end_line and end > start:
            code = f"{escaped_text(text[:start])}<mark>{escaped_text(text[start:end])}</mark>{escaped_text(text[end:])}"
        else:
            code = escaped_text(text)
        rows.append(f"<span>{number}</span>{code}")
    return "<pre>" + "\n".join(rows) + "</pre>"


def _chain(calls: Sequence[CallSite], further_roots: int) -> str:
    if not calls:
        return ""
    steps = [
        f"<code>{escaped_text(call.function or 'module level')}</code> ({escaped_text(call.path)}:{call.line})"
        for call in calls
    ]
    further = f" (and from {count(further_roots, 'further root')})" if further_roots else ""
    return f"<p><b>Called by:</b> {' &rarr; '.join([*steps, 'here'])}{further}</p>"
