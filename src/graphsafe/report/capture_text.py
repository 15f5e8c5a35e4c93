"""Describes a capture's devices, buckets and probes in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphsafe.report.model import Declared, DeviceResult, Limit, Plan, Proven, Report, Support, Verdict, unsuppressed
from graphsafe.report.plan_text import plan_lines
from graphsafe.report.pool import Pool, pool_texts
from graphsafe.report.probes import PROBES, Probes
from graphsafe.report.probes.probe import Probe
from graphsafe.report.text import Paint, Sheet, bucket_name, bytes_text, count, device_name, listed, printable
from graphsafe.report.verdict import judge

_MEANS = {
    "NEVER": ("no batch", "none: --disable-cuda-graph"),
    "UNIFORM_SINGLE_TOKEN_DECODE": ("batches of one token per request", "decode"),
    "UNIFORM_BATCH": ("batches of equally many tokens per request", "decode and target verify"),
    "ALWAYS": ("any batch, prefill and decode mixed", "decode, target verify and extend"),
}
"Level -> a description, and SGLang's name for graphs of this level."


def support_texts(support: Support) -> list[str]:
    return [_proven(support.proven), _declared(support.declared)]


def _proven(proven: Proven | None) -> str:
    if proven is None:
        return "support proven: not known from these buckets"
    plain, sglang = _MEANS[proven.level]
    if proven.level == "UNIFORM_BATCH":
        plain += f", up to {count(proven.max_query_len or 0, 'token')}"
    if proven.level == "NEVER" and proven.buckets:
        ready = [bucket_name(axes) for axes in proven.buckets]
        plain = f"some batches with the fewest tokens per request are not ready; ready: {listed(ready, most=8)}"
    return f"support proven: {proven.level}, {plain} (SGLang: {sglang})"


def _declared(declared: Declared | None) -> str:
    if declared is None:
        return "support declared: nothing"
    where = f" ({declared.where})" if declared.where else ""
    if declared.level is None:
        return f"support declared: not known, {declared.words}{where}"
    return f"support declared: {declared.level}, {_MEANS[declared.level][0]}; {declared.words}{where}"


Data = Mapping[str, Any]
"The probes as they are in a report."

VERDICT_STYLES: Mapping[Verdict, str] = {
    "ready": "bold green",
    "ready-with-breaks": "bold yellow",
    "inconclusive": "bold yellow",
    "not-ready": "bold red",
}
_STATUS_STYLES = {
    "pass": "green",
    "fail": "bold red",
    "crashed": "bold red",
    "timeout": "bold yellow",
    "skipped": "dim",
}
_STATUS_WIDTH = max(map(len, _STATUS_STYLES)) + 2
_MOST_CALLS = 8
_NAME_WIDTH = max(map(len, PROBES)) + 2


def capture_blocks(report: Report, sheet: Sheet) -> list[list[str]]:
    """Return a block of lines for each device, then the plan, the support level and a note about the evidence.

    The lines of a device are its verdict with the reason, the verdict of every bucket, and the result of each probe.
    """
    blocks = [_device(device, report.plan, sheet) for device in report.devices or ()]
    if report.plan is not None:
        blocks.append(plan_lines(report.plan, sheet))
    if report.support is not None:
        blocks.append([line for text in support_texts(report.support) for line in sheet.wrapped(text, "", "    ")])
    if report.evidence == "predicted":
        said = "Predicted on the simulated device; only a run on a GPU measures."
        blocks.append(sheet.wrapped(said))
    return blocks


def further_limits(report: Report) -> tuple[Limit, ...]:
    """Return the limits whose reason is not yet in the line of a verdict."""
    parts = [part for device in report.devices or () for part in device.parts]
    said = [_then(part.probes, report.plan, part.verdict) for part in parts]
    return tuple(limit for limit in report.limits if not any(then.endswith(f": {limit.why}") for then in said))


def summary_lines(named: Sequence[tuple[str, Report]], paint: Paint) -> list[str]:
    """Return a line for each target, in order: its name, verdict, seconds and devices."""
    rows = [(printable(name), report.verdict or "inconclusive", _seconds(report), report) for name, report in named]
    name_width = max(len(name) for name, *_ in rows)
    verdict_width = max(len(verdict) for _, verdict, *_ in rows)
    lines = []
    for name, verdict, seconds, report in rows:
        devices = " ".join(printable(device.device) for device in report.devices or ()) or "not run"
        shown = paint(VERDICT_STYLES[verdict], verdict) + " " * (verdict_width - len(verdict))
        lines.append(f"{name:<{name_width}}  {shown}  {seconds:6.1f} s  {devices}")
    return lines


def _seconds(report: Report) -> float:
    return sum(Probes.of(part.probes).timing.seconds or 0.0 for device in report.devices or () for part in device.parts)


def reason(probes: Data, plan: Plan | None, verdict: Verdict) -> str:
    """Return the reason in one sentence. The reason is empty if the report's verdict is not the one that follows from
    the probes, as in a report of another version."""
    judgement = judge(probes, plan)
    return judgement.reasons[0] if judgement.verdict == verdict else ""


def verdict_text(report: Report) -> str:
    """Return `target: verdict` in one line, with the reason if no finding contains it."""
    text = f"{report.called}: {report.verdict}"
    if report.verdict == "ready" or unsuppressed(report):
        return text
    parts = [part for device in report.devices or () for part in device.parts if part.verdict == report.verdict]
    if not parts:
        return text
    # A rank that ended because another one failed is not the cause.
    failed = ("fail", "crashed", "timeout")
    failing = (part for part in parts if any(probe.status in failed for _, probe in Probes.of(part.probes)))
    part = next(failing, parts[0])
    return text + _then(part.probes, report.plan, part.verdict)


def verdict_lines(what: str, verdict: Verdict, then: str, indent: str, sheet: Sheet) -> list[str]:
    title = f"{indent}{printable(what)}: "
    first, *rest = sheet.wrapped(verdict + then, title, f"{indent}    ")
    return [first.replace(f"{title}{verdict}", title + sheet.paint(VERDICT_STYLES[verdict], verdict), 1), *rest]


def _device(device: DeviceResult, plan: Plan | None, sheet: Sheet) -> list[str]:
    if not device.buckets:
        then = _then(device.probes, plan, device.verdict)
        return [
            *verdict_lines(device_name(device), device.verdict, then, "", sheet),
            *_probes(device.probes, then, "  ", sheet),
        ]
    lines = verdict_lines(device_name(device), device.verdict, "", "", sheet)
    worst = next((bucket for bucket in device.buckets if bucket.verdict == device.verdict), None)
    for bucket in device.buckets:
        then = _then(bucket.probes, plan, bucket.verdict)
        then += "" if bucket is worst else gain_text(bucket.probes)
        lines += verdict_lines(bucket_name(bucket.axes), bucket.verdict, then, "  ", sheet)
        if bucket is worst:
            lines += _probes(bucket.probes, then, "    ", sheet)
    for text in pool_texts(Pool.of(device.pool)) if device.pool is not None else ():
        lines += sheet.wrapped(text.strip(), "    " if text.startswith(" ") else "  ", "      ")
    return lines


def _then(probes: Data, plan: Plan | None, verdict: Verdict) -> str:
    why = reason(probes, plan, verdict)
    return f": {why}" if why else ""


def gain_text(data: Data) -> str:
    """Return how much faster a bucket's graph is and the memory that it takes. Unknown values are left out."""
    probes = Probes.of(data)
    memory, faster = probes.memory, probes.timing.times_as_fast
    parts = [f"{faster:.1f} times as fast"] if faster is not None else []
    if memory.pool_bytes is not None:
        parts.append(f"pool {bytes_text(memory.pool_bytes)}")
    if memory.step is not None and memory.step.bytes:
        parts.append(f"a step takes {bytes_text(memory.step.bytes)} at once, most of it at {memory.step.largest_place}")
    return f"; {', '.join(parts)}" if parts else ""


def _probes(data: Data, then: str, indent: str, sheet: Sheet) -> list[str]:
    """Return the results of the probes. `then` is the end of the verdict's line above.

    If the step never ran, the other probes were skipped, and only the first one that failed is shown.
    """
    probes = Probes.of(data)
    construct = probes.construct
    never_ran = construct.built is False or construct.status in ("crashed", "timeout") or probes.step.ran is False
    lines = []
    for name, probe in probes:
        told = probe.told()
        if never_ran and probe.status == "skipped" and not told:
            continue
        label = f"{indent}{name:{_NAME_WIDTH}}"
        rest_indent = " " * (len(label) + _STATUS_WIDTH)
        first, *rest = sheet.wrapped(
            "" if never_ran and then.endswith(told) else told, f"{label}{probe.status:{_STATUS_WIDTH}}", rest_indent
        )
        painted = sheet.paint(_STATUS_STYLES[probe.status], probe.status)
        lines += [(label + painted + first[len(label + probe.status) :]).rstrip(), *rest]
        lines += [printable(f"{indent}  {call}") for call in _calls(probe)]
        for text in probe.sentences():
            lines += sheet.wrapped(text, f"{indent}  ", f"{indent}    ")
    return lines


def _calls(probe: Probe) -> list[str]:
    """Return the calls that lead to the target's error.

    Of a long chain, only the beginning (the user's code) and the end are returned.
    """
    calls = [f"at {call}" for call in probe.calls or ()]
    left_out = len(calls) - _MOST_CALLS
    if left_out <= 0:
        return calls
    half = _MOST_CALLS // 2
    return [*calls[:half], f"... {count(left_out, 'more call')}", *calls[-half:]]
