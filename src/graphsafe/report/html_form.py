"""One self-contained HTML page: no script, no font, no network."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from graphsafe.report.capture_text import gain_text, probe_text, reason
from graphsafe.report.html_style import STYLE
from graphsafe.report.memory_text import held_rows
from graphsafe.report.model import LEVELS, PROBE_KEYS, CallSite, DeviceResult, Finding, Report, Verdict, in_order
from graphsafe.report.plan_text import fix_texts, headline, piece_texts, tree
from graphsafe.report.pool import pool_texts
from graphsafe.report.source import Lines
from graphsafe.report.support_text import support_texts
from graphsafe.report.text import bucket_name, bytes_text, count, device_name, listed

_CODE = re.compile(r"`([^`\n]+)`")
_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_CONTEXT = 2
"""Lines of code before and after a finding's."""


def render_html(reports: Sequence[Report], source: Lines) -> str:
    body = "\n".join(_report(report, source) for report in reports)
    title = _plain(", ".join(_heading(report) for report in reports) or "graphsafe")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _report(report: Report, source: Lines) -> str:
    findings = in_order(report.findings)
    shown = [finding for finding in findings if finding.suppressed is None]
    suppressed = [finding for finding in findings if finding.suppressed is not None]
    parts = [_head(report, shown, len(suppressed))]
    parts += [_device(device, report.plan) for device in report.devices or ()]
    parts += [_plan(report.plan)] if isinstance(report.plan, Mapping) else []
    if report.support is not None:
        parts.append("<h2>Support</h2>" + "".join(f"<p>{_words(text)}</p>" for text in support_texts(report.support)))
    if shown:
        parts += ["<h2>Findings</h2>", _by_file(shown, source)]
    if report.limits:
        rows = [(_plain(limit.kind), _words(limit.what), _words(limit.why)) for limit in report.limits]
        parts += ["<h2>Not known</h2>", _table(rows)]
    if suppressed:
        text = f"<summary>{count(len(suppressed), 'suppressed finding')}</summary>"
        parts.append(f'<details class="suppressed">{text}{_by_file(suppressed, source)}</details>')
    parts.append(_environment(report))
    return f"<main>\n{''.join(f'{part}{chr(10)}' for part in parts)}</main>"


def _heading(report: Report) -> str:
    return f"graphsafe {report.command}" + (f" {report.target}" if report.target else "")


def _head(report: Report, shown: Sequence[Finding], suppressed: int) -> str:
    levels = [finding.level for finding in shown]
    counts = [count(levels.count(level), level) for level in reversed(LEVELS) if level in levels]
    if suppressed:
        counts.append(f"{suppressed} suppressed")
    lines = [f"<h1>{_plain(_heading(report))}</h1>"]
    if report.verdict is not None:
        said = {"measured": "measured", "predicted": "predicted on the simulated device; only a GPU measures"}
        evidence = f" <small>{said[report.evidence]}</small>" if report.evidence else ""
        lines.append(f"<p>{_badge(report.verdict)}{evidence}</p>")
    return "".join([*lines, f"<p>{listed(counts) or 'No findings'}</p>"])


def _device(device: DeviceResult, plan: Any) -> str:
    parts = [f"<h2>{_plain(device_name(device))} {_badge(device.verdict)}</h2>"]
    if not device.buckets:
        parts += [f"<p>{_words(reason(device.probes, plan, device.verdict))}</p>", _probes(device.probes)]
    for bucket in device.buckets:
        title = f"{_plain(bucket_name(bucket.axes))} {_badge(bucket.verdict)}"
        why = _words(reason(bucket.probes, plan, bucket.verdict) + gain_text(bucket.probes))
        opened = " open" if bucket.verdict != "ready" else ""
        parts.append(f"<details{opened}><summary>{title} {why}</summary>{_probes(bucket.probes)}</details>")
    if device.pool is not None:
        parts.append("<p>" + "<br>".join(_words(text) for text in pool_texts(device.pool)) + "</p>")
    return "".join(parts)


def _plan(plan: Mapping[str, Any]) -> str:
    parts = [f"<h2>Plan</h2><p>{_words(headline(plan))}</p>"]
    parts.append("<ol>" + "".join(f"<li>{_words(text)}</li>" for text in piece_texts(plan)) + "</ol>")
    rows = [(_plain(name), state, f"{captured} of {total}") for name, state, captured, total in tree(plan)]
    parts += [f"<h3>Modules</h3>{_table(rows)}"] if rows else []
    fixes = "".join(f"<li>{_words(text)}</li>" for text in fix_texts(plan))
    parts += [f"<h3>What each fix would gain</h3><ul>{fixes}</ul>"] if fixes else []
    return "".join(parts)


def _probes(probes: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name in PROBE_KEYS:
        probe = probes.get(name) or {"status": "skipped"}
        status = f'<span class="{probe["status"]}">{probe["status"]}</span>'
        rows.append((name, status, _words(probe_text(name, probe))))
    return _table(rows) + _memory(probes.get("memory") or {})


def _memory(probe: Mapping[str, Any]) -> str:
    """By line; folded, because there may be many."""
    parts = []
    for key, title in (("step", "Memory that a step takes"), ("pool", "Memory that the graph uses")):
        held = probe.get(key)
        if held and held["lines"]:
            total = f"{title}, by line: {bytes_text(held['bytes'])} at once"
            rows = [("line", "at once", "in all", "allocations", "kept"), *held_rows(held)]
            table = _table([[_plain(cell) for cell in row] for row in rows])
            parts.append(f"<details><summary>{_plain(total)}</summary>{table}</details>")
    return "".join(parts)


def _by_file(findings: Sequence[Finding], source: Lines) -> str:
    parts = []
    for path, group in groupby(findings, lambda finding: finding.location.path):
        lines = source(path)
        parts.append(f"<h3>{_plain(path)}</h3>" + "".join(_finding(finding, lines) for finding in group))
    return "".join(parts)


def _finding(finding: Finding, lines: Sequence[str] | None) -> str:
    at = finding.location
    about = [
        f"line {at.line}",
        *([f"in <code>{_plain(at.function)}</code>"] if at.function else []),
        finding.confidence,
    ]
    about[-1] += f" on {_plain(finding.device)}" if finding.device else ""
    about += [finding.status] if finding.status else []
    about += [f"{finding.count} times"] if finding.count > 1 else []
    parts = [
        f"<h4><span>{finding.code} {finding.level}:</span> {_words(finding.message)}</h4>",
        f"<p class='about'>{', '.join(about)}</p>",
        _frame(finding, lines),
        _chain(finding.call_chain, finding.further_roots),
    ]
    if finding.suppressed is not None:
        parts.append(f"<p><b>Suppressed:</b> {_words(finding.suppressed.reason or 'no reason given')}</p>")
    parts += [
        f"<p><b>{label}:</b> {_paragraphs(text)}</p>"
        for label, text in (("Why", finding.why), ("Fix", finding.fix))
        if text
    ]
    return f'<article class="{finding.level}">{"".join(parts)}</article>'


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
            code = f"{_plain(text[:start])}<mark>{_plain(text[start:end])}</mark>{_plain(text[end:])}"
        else:
            code = _plain(text)
        rows.append(f"<span>{number}</span>{code}")
    return "<pre>" + "\n".join(rows) + "</pre>"


def _chain(calls: Sequence[CallSite], further_roots: int) -> str:
    if not calls:
        return ""
    steps = [
        f"<code>{_plain(call.function or 'module level')}</code> ({_plain(call.path)}:{call.line})" for call in calls
    ]
    further = f" (and from {count(further_roots, 'further root')})" if further_roots else ""
    return f"<p><b>Called by:</b> {' &rarr; '.join([*steps, 'here'])}{further}</p>"


def _environment(report: Report) -> str:
    it = report.environment
    facts = [
        ("graphsafe", report.tool.version),
        ("created", report.created),
        ("Python", it.python),
        ("torch", it.torch),
        ("CUDA", it.cuda),
        ("driver", it.driver),
        ("devices", listed(it.devices)),
        ("op table", it.facts),
        *it.libraries.items(),
        *it.settings.items(),
    ]
    return "<h2>Environment</h2>" + _table([(_plain(name), _plain(value)) for name, value in facts if value])


def _table(rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are already HTML."""
    return "<table>" + "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows) + "</table>"


def _badge(verdict: Verdict) -> str:
    return f'<strong class="{verdict}">{verdict}</strong>'


def _paragraphs(text: str) -> str:
    return "<br>".join(_words(part) for part in re.split(r"\n\s*\n", text.strip()))


def _words(text: str) -> str:
    """Escaped text. Of Markdown, only backticks are rendered, as code."""
    return _CODE.sub(r"<code>\1</code>", _plain(text))


def _plain(text: str) -> str:
    return escape(_UNPRINTABLE.sub("\ufffd", text))
