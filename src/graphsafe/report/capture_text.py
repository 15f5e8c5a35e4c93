"""What a capture's devices, buckets and probes said, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphsafe.report.memory_text import held_texts, largest_place, memory_text
from graphsafe.report.model import PROBE_KEYS, DeviceResult, Report, Verdict
from graphsafe.report.plan_text import plan_lines
from graphsafe.report.pool import pool_texts
from graphsafe.report.support_text import support_texts
from graphsafe.report.text import (
    Paint,
    bucket_name,
    bytes_text,
    count,
    device_name,
    first_line,
    listed,
    printable,
    wrapped,
)
from graphsafe.report.verdict import judge

Probe = Mapping[str, Any]

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
_NAME_WIDTH = max(map(len, PROBE_KEYS)) + 2


def capture_blocks(report: Report, width: int, paint: Paint) -> list[list[str]]:
    """A block of lines a device: the verdict and its reason, for every bucket, and what each probe saw."""
    blocks = [_device(device, report.plan, width, paint) for device in report.devices or ()]
    if isinstance(report.plan, Mapping):
        blocks.append(plan_lines(report.plan, width, paint))
    if report.support is not None:
        blocks.append([line for text in support_texts(report.support) for line in wrapped(text, width, "", "    ")])
    if report.evidence == "predicted":
        said = "Predicted on the simulated device; only a run on a GPU measures."
        blocks.append(wrapped(said, width))
    return blocks


def summary_lines(named: Sequence[tuple[str, Report]], paint: Paint) -> list[str]:
    """Many targets, a line each and in their order: name, verdict, seconds and devices."""
    rows = [(printable(name), report.verdict or "inconclusive", _seconds(report), report) for name, report in named]
    name_width = max(len(name) for name, *_ in rows)
    verdict_width = max(len(verdict) for _, verdict, *_ in rows)
    lines = []
    for name, verdict, seconds, report in rows:
        devices = " ".join(device.device for device in report.devices or ()) or "not run"
        shown = paint(VERDICT_STYLES[verdict], verdict) + " " * (verdict_width - len(verdict))
        lines.append(f"{name:<{name_width}}  {shown}  {seconds:6.1f} s  {devices}")
    return lines


def _seconds(report: Report) -> float:
    return sum(
        (part.probes.get("timing") or {}).get("seconds") or 0.0
        for device in report.devices or ()
        for part in (device.buckets or (device,))
    )


def reason(probes: Mapping[str, Probe], plan: Any, verdict: Verdict) -> str:
    """Why, in one sentence; empty where these probes do not give that verdict (a report of another version)."""
    judgement = judge(probes, plan if isinstance(plan, Mapping) else None)
    return judgement.reasons[0] if judgement.verdict == verdict else ""


def probe_text(name: str, probe: Probe) -> str:
    """The probe's numbers, or why it has none; empty where it says nothing."""
    why = first_line(probe.get("reason") or "")
    if probe["status"] not in ("pass", "fail"):
        return why
    return first_line((probe.get("first_error") or {}).get("message") or "") or _TEXTS[name](probe) or why


def verdict_lines(what: str, verdict: Verdict, then: str, indent: str, width: int, paint: Paint) -> list[str]:
    title = f"{indent}{printable(what)}: "
    first, *rest = wrapped(verdict + then, width, title, f"{indent}    ")
    return [first.replace(f"{title}{verdict}", title + paint(VERDICT_STYLES[verdict], verdict), 1), *rest]


def _device(device: DeviceResult, plan: Any, width: int, paint: Paint) -> list[str]:
    if not device.buckets:
        then = _then(device.probes, plan, device.verdict)
        return [
            *verdict_lines(device_name(device), device.verdict, then, "", width, paint),
            *_probes(device.probes, "  ", width, paint),
        ]
    lines = verdict_lines(device_name(device), device.verdict, "", "", width, paint)
    worst = next((bucket for bucket in device.buckets if bucket.verdict == device.verdict), None)
    for bucket in device.buckets:
        then = _then(bucket.probes, plan, bucket.verdict)
        then += "" if bucket is worst else gain_text(bucket.probes)
        lines += verdict_lines(bucket_name(bucket.axes), bucket.verdict, then, "  ", width, paint)
        if bucket is worst:
            lines += _probes(bucket.probes, "    ", width, paint)
    for text in pool_texts(device.pool) if device.pool is not None else ():
        lines += wrapped(text.strip(), width, "    " if text.startswith(" ") else "  ", "      ")
    return lines


def _then(probes: Mapping[str, Probe], plan: Any, verdict: Verdict) -> str:
    why = reason(probes, plan, verdict)
    return f": {why}" if why else ""


def gain_text(probes: Mapping[str, Probe]) -> str:
    """What a bucket's graph gains, and what it and an eager step take, after its verdict; empty where that is not
    known."""
    timing, memory = probes.get("timing") or {}, probes.get("memory") or {}
    parts = [f"{timing['eager_ms'] / timing['graph_ms']:.1f} times as fast"] if _has_times(timing) else []
    if memory.get("pool_bytes") is not None:
        parts.append(f"pool {bytes_text(memory['pool_bytes'])}")
    step = memory.get("step") or {}
    if step.get("bytes"):
        parts.append(f"a step takes {bytes_text(step['bytes'])} at once, most of it at {largest_place(step)}")
    return f"; {', '.join(parts)}" if parts else ""


def _has_times(timing: Probe) -> bool:
    return timing.get("eager_ms") is not None and bool(timing.get("graph_ms"))


def _probes(probes: Mapping[str, Probe], indent: str, width: int, paint: Paint) -> list[str]:
    lines = []
    for name in PROBE_KEYS:
        probe = probes.get(name) or {"status": "skipped"}
        status = probe["status"]
        label = f"{indent}{name:{_NAME_WIDTH}}"
        first, *rest = wrapped(
            probe_text(name, probe), width, f"{label}{status:{_STATUS_WIDTH}}", " " * (len(label) + _STATUS_WIDTH)
        )
        lines += [(label + paint(_STATUS_STYLES[status], status) + first[len(label + status) :]).rstrip(), *rest]
        lines += [printable(f"{indent}  {call}") for call in _calls(probe)]
        for text in held_texts(probe) if name == "memory" else ():
            lines += wrapped(text, width, f"{indent}  ", f"{indent}    ")
    return lines


def _calls(probe: Probe) -> list[str]:
    """To where the target raised; of a long way the beginning, which is the user's, and the end."""
    calls = [f"at {call}" for call in probe.get("calls") or ()]
    left_out = len(calls) - _MOST_CALLS
    if left_out <= 0:
        return calls
    half = _MOST_CALLS // 2
    return [*calls[:half], f"... {count(left_out, 'more call')}", *calls[-half:]]


def _construct(probe: Probe) -> str:
    if probe.get("built") is False:
        return "not built"
    if probe.get("left_capturing"):
        return "a random-number generator was left capturing"
    captures = probe.get("captures") or ()
    return f"{count(len(captures), 'capture')} while building" if captures else ""


def _step(probe: Probe) -> str:
    nouns = (("syncs", "sync"), ("copies", "copy"), ("allocations", "allocation"))
    return listed([count(probe[key], noun) for key, noun in nouns if probe.get(key) is not None])


def _state(probe: Probe) -> str:
    changed = probe.get("changed")
    if changed is None:
        return ""
    reported = [
        item if isinstance(item, str) else str(item.get("name")) for item in changed if isinstance(item, (str, dict))
    ]
    names = list(dict.fromkeys(reported))
    return f"a step changes {listed(names, most=3)}" if names else "no attribute changes"


def _capture(probe: Probe) -> str:
    nodes = probe.get("nodes")
    if not nodes:
        return "the graph is empty" if probe.get("empty") else ""
    kinds = [f"{number} {kind}" for kind, number in nodes.items()]
    return f"{count(sum(nodes.values()), 'node')}: {listed(kinds)}"


def _replay(probe: Probe) -> str:
    checks = probe.get("checks") or ()
    results = [check.get("result") for check in checks]
    parts = [f"{count(len(checks), 'check')}, {results.count('equal')} equal bit for bit"] if checks else []
    if results.count("rounding"):
        parts[-1] += f", {results.count('rounding')} within rounding"
    if probe.get("varied") is not None:
        parts.append(f"inputs changed in {count(probe['varied'], 'replay')}")
    law = {"pass": "random numbers as in eager steps", "fail": "random numbers differ from eager steps"}
    if probe.get("rng_law") in law:
        parts.append(law[probe["rng_law"]])
    return "; ".join(parts)


def _twin(probe: Probe) -> str:
    captures = probe.get("captures")
    if not captures:
        return ""
    differences = probe.get("differences") or ()
    if probe["status"] == "fail" and differences:
        first = differences[0]
        place = f" at {first['place']}" if first.get("place") else ""
        return f"a later capture differs: {first['op']}{place}, {first['before']} then {first['after']}"
    return f"{count(captures, 'capture')} are the same graph" if probe.get("agree") else "no difference has an effect"


def _timing(probe: Probe) -> str:
    eager, graph = probe.get("eager_ms"), probe.get("graph_ms")
    parts = [f"{name} {ms:.3g} ms" for name, ms in (("eager", eager), ("graph", graph)) if ms is not None]
    if _has_times(probe):
        parts.append(f"{probe['eager_ms'] / probe['graph_ms']:.1f} times as fast")
    if probe.get("shared"):
        parts.append("measured beside another target")
    return ", ".join(parts)


_TEXTS: Mapping[str, Callable[[Probe], str]] = {
    "construct": _construct,
    "step": _step,
    "state": _state,
    "capture": _capture,
    "replay": _replay,
    "twin": _twin,
    "memory": memory_text,
    "timing": _timing,
}
