"""How building the step affects the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.probe import LATER, PLACE, Error, Probe, later, unreported
from graphsafe.report.text import count


@dataclass(frozen=True, slots=True)
class RandomState:
    """A generator of the device before and after the step was built."""

    seed: int | None
    reseeded: bool | None = field(default=None, kw_only=True, metadata=LATER)
    offset_before: int | None
    offset_after: int | None
    draw: str | None
    "The error message if the generator cannot draw."


@dataclass(frozen=True, slots=True)
class Attempt:
    """A capture that began while the step was built."""

    device: str
    place: str | None = field(default=None, kw_only=True, metadata=PLACE)
    nodes: int | None
    first_error: Error | None
    "The first error, or None if the capture ended without error. If a capture was left open, the error says so."
    frames: tuple[CallSite, ...] = unreported(())
    span: Span | None = unreported()


@dataclass(frozen=True, slots=True)
class Construct(Probe):
    """How the device was used while the step was built."""

    built: bool | None = None
    "Whether the factory returned an object that can be run as a step."
    left_capturing: bool | None = None
    """Whether a generator refuses to draw after the factory has returned, as if a capture were still running.

    Only devices with a CUDA context are checked.
    """
    rng: Mapping[str, RandomState] | None = None
    captures: tuple[Attempt, ...] | None = None
    repaired: Mapping[str, bool] | None = later()
    "Device -> whether a broken generator could be repaired."
    stands_on: str | None = later()
    "The device and stream that were current after the step was built."
    generators: tuple[str, ...] | None = later()
    threads: tuple[str, ...] | None = later()

    def text(self) -> str:
        if self.built is False:
            return "not built"
        if self.left_capturing:
            return "a random generator was left in capture mode"
        return f"{count(len(self.captures), 'capture')} while building" if self.captures else ""
