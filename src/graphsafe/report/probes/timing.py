"""How long an eager step, a replay and the proof itself take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphsafe.report.probes.probe import Number, Probe, later


@dataclass(frozen=True, slots=True)
class Timing(Probe):
    eager_ms: float | None = None
    graph_ms: float | None = None
    launches: int | None = None
    "The number of kernel launches in one eager step."
    eager_spread_ms: tuple[float, float] | None = later()
    "The 10th and the 90th percentile of the times of eager steps."
    graph_spread_ms: tuple[float, float] | None = later()
    shared: bool | None = later()
    "Whether another target used the device while times were measured."
    seconds: float | None = later()
    "The duration of the proof in seconds."
    children: Mapping[str, float] | None = later()
    "Child -> its duration in seconds."
    spent: Mapping[str, Mapping[str, float]] | None = later()
    "Child -> activity -> the seconds that it took."
    not_shared: str | None = later()
    "Why each child had to import its modules itself."

    @property
    def times_as_fast(self) -> float | None:
        """The time of an eager step divided by the time of a replay, or None."""
        return self.eager_ms / self.graph_ms if self.eager_ms is not None and self.graph_ms else None

    def text(self) -> str:
        times = (("eager", self.eager_ms), ("graph", self.graph_ms))
        parts = [f"{name} {ms:.3g} ms" for name, ms in times if ms is not None]
        if self.times_as_fast is not None:
            parts.append(f"{self.times_as_fast:.1f} times as fast")
        if self.shared:
            parts.append("measured beside another target")
        return ", ".join(parts)

    def numbers(self) -> Sequence[Number]:
        return [
            Number("eager step", self.eager_ms, "ms"),
            Number("replay", self.graph_ms, "ms"),
            Number("launches", self.launches, "count"),
        ]
