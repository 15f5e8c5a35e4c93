"""The probes of a report. The verdict depends on them, and every format shows them.

Each field of `Probes` is a probe. The keys and the JSON schema of reports, the terminal format and HTML are derived
from the probes' data classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from graphsafe.report.probes.capture import Capture
from graphsafe.report.probes.construct import Construct
from graphsafe.report.probes.horizon import Horizon
from graphsafe.report.probes.memory import Memory
from graphsafe.report.probes.order import Order
from graphsafe.report.probes.probe import Probe, is_unreported
from graphsafe.report.probes.replay import Replay
from graphsafe.report.probes.state import State
from graphsafe.report.probes.step import Step
from graphsafe.report.probes.timeline import Timeline
from graphsafe.report.probes.timing import Timing
from graphsafe.report.probes.twin import Twin
from graphsafe.report.reading import hints_of, read


@dataclass(frozen=True, slots=True)
class Probes:
    """All probes of one device and bucket, in the order of reports."""

    construct: Construct = field(default_factory=Construct)
    step: Step = field(default_factory=Step)
    state: State = field(default_factory=State)
    capture: Capture = field(default_factory=Capture)
    replay: Replay = field(default_factory=Replay)
    twin: Twin = field(default_factory=Twin)
    horizon: Horizon = field(default_factory=Horizon)
    order: Order = field(default_factory=Order)
    memory: Memory = field(default_factory=Memory)
    timing: Timing = field(default_factory=Timing)
    timeline: Timeline = field(default_factory=Timeline)

    @staticmethod
    def of(data: Mapping[str, Any]) -> Probes:
        """Return the probes of a report's data. A missing key is an unknown value. Unknown keys are ignored."""
        return read(Probes, data)

    def with_found(self, find: Callable[[type[Probe]], Probe | None]) -> Probes:
        """Return the probes. If `find` returns a probe for a type, it replaces the probe of this type."""
        found: dict[str, Any] = {name: find(kind) for name, kind in PROBES.items()}
        return replace(self, **{name: probe for name, probe in found.items() if probe is not None})

    def __iter__(self) -> Iterator[tuple[str, Probe]]:
        return ((name, getattr(self, name)) for name in PROBES)


PROBES: Mapping[str, type[Probe]] = hints_of(Probes)
PROBE_KEYS: Mapping[str, tuple[str, ...]] = {
    name: tuple(one.name for one in fields(probe) if not is_unreported(one)) for name, probe in PROBES.items()
}
"""Probe -> its keys in every report. Unknown values are null. Older reports may lack some keys."""
