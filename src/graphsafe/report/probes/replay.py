"""Replays of the graph on changed inputs, compared with the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from graphsafe.report.probes.probe import Error, Probe, error_text, later, unreported
from graphsafe.report.text import count

Outcome = Literal["equal", "rounding", "different"]
NO_REFERENCE = "no reference"
"The reason for a missing comparison if the reference child returned no result."


@dataclass(frozen=True, slots=True)
class Check:
    """One output or piece of state that was compared at several steps, with the worst result.

    `floor` is how much eager runs differ by chance. `rounding` is how much the result changes if inputs change by one
    unit in the last place; it is null if this was not measured.
    """

    name: str
    result: Outcome | None = "equal"
    """`equal`: all bits are equal. `rounding`: the difference is no larger than chance or rounding explains.

    `different`: it is larger than that. null: no bound for the difference is known.
    """
    equal: bool | None = True
    max_abs: float | None = 0.0
    floor: float | None = 0.0
    rounding: float | None = None
    replay: int | None = later()
    "The replay with the largest difference."
    compares: Literal["replay", "plain eager"] | None = later("replay")
    """`replay`: replays were compared with the reference, which takes the code path of captures.

    `plain eager`: plain eager steps were compared with this reference.
    """
    on_host: bool = unreported(False)
    "Whether an output is a Python value, which no replay changes."

    @staticmethod
    def upgraded(data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the data of a check. Checks in early reports have no key `result`."""
        return data if "result" in data else {**data, "result": _result_of(data)}


@dataclass(frozen=True, slots=True)
class Advances:
    """The amounts by which two successive steps advanced the generator. They are null without a generator."""

    eager: tuple[int | None, ...]
    replay: tuple[int | None, ...]
    eager_differ: bool | None = later()
    "Whether the two eager steps draw different numbers."
    replays_differ: bool | None = later()


@dataclass(frozen=True, slots=True)
class Replay(Probe):
    """Replays of the graph on changed inputs, compared with the reference.

    `pass`: all replays ran, and no field below disproves them. `crashed`: the child died in a replay, after a capture
    that passed.
    """

    first_error: Error | None = None
    reference: Literal["independent"] | None = None
    "Whether the reference child delivered the values with which replays are compared."
    checks: tuple[Check, ...] | None = None
    """The checks of every output and every piece of state.

    Most of them compare all replays with the reference, which takes the code path of captures. The others compare that
    path with plain eager steps.
    """
    varied: int | None = None
    """The number of replays in which the changed inputs changed the reference's outputs or state.

    If there is no such replay, this is the number of rounds of the refresh in which the outputs or the state changed.
    """
    unvaried: tuple[str, ...] | None = None
    """The inputs to which no new values could be given although the outputs may depend on them.

    They rule out `ready` unless the twin captures agree.
    """
    unvaried_host: tuple[str, ...] | None = None
    """The inputs of `unvaried` that are on the host.

    They always rule out `ready`: Python may choose its path by their values, and twin captures with the same values
    prove nothing about such a choice.
    """
    rng_law: Literal["pass", "fail", "skipped"] | None = None
    "`skipped`: the step draws no random numbers. null: it could not be checked."
    first_step: Literal["pass", "fail", "skipped", "crashed", "timeout"] | None = None
    """`fail`: a replay differs from the reference's first step because of an attribute that step 1 created.

    The attribute depends on the inputs of step 1 and is not rewritten later (GS701 proven). In a prediction from
    shapes, `fail` means that the graph reads, but does not write, memory that step 1 created from its inputs. `pass`:
    there is no difference, or only an intended difference, such as a cache position. `skipped`: step 1 created no
    attribute.
    """
    rng: Advances | None = later()
    rounds: int | None = later()
    "The number of further rounds of the target's refresh in which replays were compared."

    def text(self) -> str:
        results = [check.result for check in self.checks or ()]
        parts = [f"{count(len(results), 'check')}, {results.count('equal')} equal bit for bit"] if results else []
        if results.count("rounding"):
            parts[-1] += f", {results.count('rounding')} within rounding"
        if self.varied is not None:
            parts.append(f"inputs changed in {count(self.varied, 'replay')}")
        if self.rounds:
            parts.append(f"compared in {count(self.rounds, 'further round')} of the refresh")
        if self.rng_law in ("pass", "fail"):
            same = "as in" if self.rng_law == "pass" else "differ from"
            parts.append(f"random numbers {same} eager steps")
        return error_text(self.first_error) or "; ".join(parts)


def differing(checks: Sequence[Check]) -> list[Check]:
    """Return the checks whose difference is larger than chance and rounding explain."""
    return [check for check in checks if check.result == "different"]


def _result_of(data: Mapping[str, Any]) -> Outcome | None:
    floor, largest = _finite(data.get("floor")), _finite(data.get("max_abs"))
    if data.get("equal") is True:
        return "equal"
    if data.get("equal") is None or floor is None:
        return None
    return "rounding" if largest is not None and largest <= floor else "different"


def _finite(value: float | None) -> float | None:
    """Return a finite number as it is. Return None for NaN and infinity, which do not measure a difference."""
    return value if value is not None and math.isfinite(value) else None
