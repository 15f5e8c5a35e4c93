"""The part of a page about a capture: its devices, buckets, probes and timelines, and the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphsafe.report.capture_text import gain_text, reason
from graphsafe.report.html.timeline import timeline_html
from graphsafe.report.html.words import badge, escaped_text, table, words
from graphsafe.report.model import DeviceResult, Plan, Report
from graphsafe.report.plan_text import fix_texts, headline, piece_texts, tree
from graphsafe.report.pool import Pool, pool_texts
from graphsafe.report.probes import Probes
from graphsafe.report.text import bucket_name, device_name
from graphsafe.report.timeline.lanes import Picture, pictures


def devices_html(report: Report) -> str:
    drawn = iter(pictures(report))
    parts = [_device(device, report.plan, drawn) for device in report.devices or ()]
    parts += [_plan(report.plan)] if report.plan is not None else []
    return "".join(parts)


def _device(device: DeviceResult, plan: Plan | None, drawn: Iterator[Picture]) -> str:
    parts = [f"<h2>{escaped_text(device_name(device))} {badge(device.verdict)}</h2>"]
    if not device.buckets:
        why = words(reason(device.probes, plan, device.verdict))
        parts += [f"<p>{why}</p>", timeline_html(next(drawn)), _probes(device.probes)]
    for bucket in device.buckets:
        title = f"{escaped_text(bucket_name(bucket.axes))} {badge(bucket.verdict)}"
        why = words(reason(bucket.probes, plan, bucket.verdict) + gain_text(bucket.probes))
        opened = " open" if bucket.verdict != "ready" else ""
        inside = timeline_html(next(drawn)) + _probes(bucket.probes)
        parts.append(f"<details{opened}><summary>{title} {why}</summary>{inside}</details>")
    if device.pool is not None:
        parts.append("<p>" + "<br>".join(map(words, pool_texts(Pool.of(device.pool)))) + "</p>")
    return "".join(parts)


def _plan(plan: Plan) -> str:
    parts = [f"<h2>Plan</h2><p>{words(headline(plan))}</p>"]
    parts.append("<ol>" + "".join(f"<li>{words(text)}</li>" for text in piece_texts(plan)) + "</ol>")
    rows = [(escaped_text(name), state, f"{captured} of {total}") for name, state, captured, total in tree(plan)]
    parts += [f"<h3>Modules</h3>{table(rows)}"] if rows else []
    fixes = "".join(f"<li>{words(text)}</li>" for text in fix_texts(plan))
    parts += [f"<h3>What each fix would gain</h3><ul>{fixes}</ul>"] if fixes else []
    return "".join(parts)


def _probes(data: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table with one row for each probe, then the tables of the probes. The latter are folded, because they
    may be long."""
    rows, tables = [], []
    for name, probe in Probes.of(data):
        status = f'<span class="{probe.status}">{probe.status}</span>'
        rows.append((name, status, words(probe.told())))
        for each in probe.tables():
            cells = table([[escaped_text(cell) for cell in row] for row in each.rows])
            tables.append(f"<details><summary>{escaped_text(each.title)}</summary>{cells}</details>")
    return table(rows) + "".join(tables)
