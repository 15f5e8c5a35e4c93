"""Tells how far a step supports CUDA graphs, in vLLM's terms, from the verdicts of its buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphsafe.capture.shared.axes import Query, query_of
from graphsafe.config import SUPPORT_LEVELS as LEVELS
from graphsafe.report.model import Proven, Verdict
from graphsafe.report.probes.timing import Timing

_NEVER, _SINGLE, _UNIFORM, _ALWAYS = LEVELS
_FAILED: tuple[Verdict, ...] = ("not-ready", "ready-with-breaks")
"Verdicts of a bucket that break a declared promise, which is always one graph for the whole step."


@dataclass(frozen=True, slots=True)
class Tried:
    """A bucket that was run. Its verdict is the worst one over all devices."""

    axes: Mapping[str, Any]
    verdict: Verdict
    timing: Timing = field(default_factory=Timing)
    "The times on the first device that measured times."

    @property
    def query(self) -> Query:
        return query_of(self.axes)


def proven_by(tried: Sequence[Tried]) -> Proven | None:
    """Return the support that the buckets prove, or None if no bucket says how many tokens a request has, or if the
    smallest buckets are inconclusive."""
    by_length: dict[int, list[Verdict]] = {}
    for one in tried:
        if isinstance(one.query, int):
            by_length.setdefault(one.query, []).append(one.verdict)
    mixed = [one.verdict for one in tried if one.query == "mixed"]
    longest: int | None = None
    for length, verdicts in sorted(by_length.items()):
        if not _all_ready(verdicts):
            break
        longest = length
    ready = tuple(one.axes for one in tried if one.verdict == "ready")
    if _all_ready(mixed) and all(map(_all_ready, by_length.values())):
        return Proven(_ALWAYS, longest, ready)
    if longest is not None:
        return Proven(_SINGLE if longest == 1 else _UNIFORM, longest, ready)
    shortest = by_length.get(min(by_length)) if by_length else None
    if shortest is not None and any(verdict in _FAILED for verdict in shortest):
        return Proven(_NEVER, None, ready)
    return None


def over_declared(level: str, tried: Sequence[Tried]) -> Tried | None:
    """Return the first bucket that the declared level promises and that cannot be captured."""
    return next((one for one in tried if one.verdict in _FAILED and _promises(level, one.query)), None)


def under_declared(level: str, tried: Sequence[Tried]) -> Tried | None:
    """Return a bucket that is proven although the declaration does not promise it: the bucket with the most tokens if a
    higher level is proven; under `NEVER`, any ready bucket if no bucket failed."""
    unused = [one for one in tried if one.verdict == "ready" and _promises(level, one.query) is False]
    proven = proven_by(tried)
    if proven is None:
        failed = any(one.verdict in _FAILED for one in tried)
        return unused[-1] if unused and level == _NEVER and not failed else None
    return unused[-1] if unused and LEVELS.index(proven.level) > LEVELS.index(level) else None


def _promises(level: str, query: Query) -> bool | None:
    """Return whether the level promises graphs for a bucket with this query length; None if the answer depends on an
    unknown property of the bucket."""
    if level in (_NEVER, _ALWAYS):
        return level == _ALWAYS
    if query is None:
        return None
    return query == 1 if level == _SINGLE else query != "mixed"


def _all_ready(verdicts: Sequence[Verdict]) -> bool:
    return bool(verdicts) and all(verdict == "ready" for verdict in verdicts)
