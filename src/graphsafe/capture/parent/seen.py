"""The answers of the children of one device and bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphsafe.capture.answers.probes import Marks
from graphsafe.capture.shared.collectives import Call
from graphsafe.capture.shared.told import Told
from graphsafe.report.model import Plan, Source, Verdict
from graphsafe.report.probes import Probes


@dataclass(frozen=True, slots=True)
class Seen:
    """The answers of the children of one device and bucket; missing ones are empty."""

    device: str
    source: Source
    verdict: Verdict
    probes: Probes
    told: Told = field(default_factory=Told)
    "The answers that are not probes."
    plan: Plan | None = None
    marks: Marks = field(default_factory=Marks)
    "The target's own marks, judged by the plan."
    rank: int | None = None
    divergence: Mapping[int, Call | None] = field(default_factory=dict)
    "Rank -> its first collective that other ranks lack; None for a rank that stopped before the others."
