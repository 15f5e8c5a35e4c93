"""Reduces a report to the few numbers that a lock keeps for one kind of device and one bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphsafe.report.model import VERDICTS, DeviceResult, Environment, Report, Verdict
from graphsafe.report.probes import Probes
from graphsafe.report.text import bucket_name

Key = tuple[str, str, int | None]
"The key of an entry: a kind of device, a bucket and a rank."


@dataclass(frozen=True, slots=True)
class Spread:
    """The result of a measurement in several rounds: the median, and the tenth and ninetieth percentiles."""

    median: float
    low: float
    high: float

    def text(self, unit: str) -> str:
        return f"{self.median:.3g} {unit} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """One entry of a lock, with its values in the order of the file. None means that the value was not measured."""

    device: str
    "The kind of device: `sim`, or the GPU's name."
    bucket: str = ""
    "The bucket: `batch=8 q_len=1`. It is empty if the target has no axes."
    rank: int | None = None
    verdict: Verdict
    nodes: Mapping[str, int]
    waits: int | None = None
    copies: int | None = None
    coverage: float | None = None
    "The plan's coverage, if the step as a whole is not ready."
    pool_bytes: int | None = None
    speedup: Spread | None = None
    "The time of an eager step divided by the time of a replay."
    replay_ms: Spread | None = None
    torch: str | None = None

    @property
    def key(self) -> Key:
        return self.device, self.bucket, self.rank


def proven_by(report: Report) -> dict[Key, Proven]:
    """Return the proof in a report. If it has several devices of one kind, use the worst one."""
    found: dict[Key, Proven] = {}
    for device in report.devices or ():
        kind = kind_of(device.device, report.environment)
        for part in device.parts:
            probes = Probes.of(part.probes)
            speedup, replay_ms = _times(probes)
            entry = Proven(
                device=kind,
                bucket=bucket_name(part.axes),
                rank=device.rank,
                torch=report.environment.torch,
                verdict=part.verdict,
                nodes=dict(probes.capture.nodes or {}),
                waits=probes.step.syncs,
                copies=probes.step.copies,
                coverage=_coverage(report, device, part.verdict),
                pool_bytes=probes.memory.pool_bytes,
                speedup=speedup,
                replay_ms=replay_ms,
            )
            known = found.get(entry.key)
            if known is None or VERDICTS.index(part.verdict) > VERDICTS.index(known.verdict):
                found[entry.key] = entry
    return found


def kind_of(device: str, environment: Environment) -> str:
    """Return the kind of a device.

    For `cuda:1`, this is its name in the report's environment, such as `NVIDIA H200`. For simulated devices, it is
    `sim`.
    """
    if device.startswith("sim"):
        return "sim"
    label = next((label for label in environment.devices if label.split(" ")[0] == device), device)
    return label.partition(" ")[2].partition(" (")[0] or device


def _coverage(report: Report, device: DeviceResult, verdict: Verdict) -> float | None:
    plan = report.plan
    if plan is None or plan.coverage is None or not plan.verified or verdict == "ready":
        return None
    return round(plan.coverage, 4) if device is (report.devices or (None,))[0] else None


def _times(probes: Probes) -> tuple[Spread | None, Spread | None]:
    """Return the speedup and the time of a replay. Both are None if another target used the device meanwhile."""
    timing = probes.timing
    median, eager, graph = timing.times_as_fast, timing.eager_spread_ms, timing.graph_spread_ms
    if median is None or eager is None or graph is None or timing.shared or not graph[0] or not graph[1]:
        return None, None
    speedup = Spread(round(median, 3), round(eager[0] / graph[1], 3), round(eager[1] / graph[0], 3))
    of_replay = None if timing.graph_ms is None else Spread(*(round(one, 4) for one in (timing.graph_ms, *graph)))
    return speedup, of_replay
