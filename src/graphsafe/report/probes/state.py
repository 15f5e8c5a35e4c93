"""How the state that a step can reach changes from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphsafe.report.model import CallSite
from graphsafe.report.probes.probe import PLACE, Probe, unreported
from graphsafe.report.text import listed


@dataclass(frozen=True, slots=True)
class Change:
    """A piece of state that a step changes."""

    name: str
    how: str
    "One of `born`, `grows`, `rebound`, `host`, `changes`, `cached` or `opaque`."
    before: object
    after: object
    place: str | None = field(default=None, kw_only=True, metadata=PLACE)
    frames: tuple[CallSite, ...] = unreported(())

    @staticmethod
    def upgraded(data: Any) -> Mapping[str, Any]:
        """Return the data of a change. In older reports, the data is only the name."""
        return {"name": data} if isinstance(data, str) else data


@dataclass(frozen=True, slots=True)
class State(Probe):
    changed: tuple[Change, ...] | None = None

    def text(self) -> str:
        if self.changed is None:
            return ""
        names = list(dict.fromkeys(change.name for change in self.changed))
        return f"a step changes {listed(names, most=3)}" if names else "no attribute changes"
