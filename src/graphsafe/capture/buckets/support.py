"""How far a step supports CUDA graphs, in vLLM's terms, from the verdicts of its buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsafe.capture.buckets.axes import Query, query_of
from graphsafe.config import SUPPORT_LEVELS as LEVELS
from graphsafe.report.model import Verdict

_NEVER, _SINGLE, _UNIFORM, _ALWAYS = LEVELS
_FAILED: tuple[Verdict, ...] = ("not-ready", "ready-with-breaks")
"A graph of the whole step is what is promised."


@dataclass(frozen=True, slots=True)
class Times:
    """Of one bucket on one device, both measured."""

    eager_ms: float
    graph_ms: float

    @property
    def times_as_fast(self) -> float:
        return self.eager_ms / self.graph_ms


@dataclass(frozen=True, slots=True)
class Tried:
    """A bucket that was run, on all devices: its verdict there is the worst."""

    axes: Mapping[str, Any]
    verdict: Verdict
    times: Times | None = None
    "On the first device that has them."

    @property
    def query(self) -> Query:
        return query_of(self.axes)


@dataclass(frozen=True, slots=True)
class Proven:
    level: str
    max_query_len: int | None
    "The most tokens a request in uniform batches that are proven; None where there is none."
    buckets: tuple[Mapping[str, Any], ...]
    "Those that are ready."


def proven_by(tried: Sequence[Tried]) -> Proven | None:
    """None where the buckets do not tell: none of them says how many tokens a request has, or the first ones are
    inconclusive."""
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
    """The first bucket that the level promises and that cannot be captured."""
    return next((one for one in tried if one.verdict in _FAILED and _promises(level, one.query)), None)


def under_declared(level: str, tried: Sequence[Tried]) -> Tried | None:
    """The last bucket, of the most tokens, that is proven and not promised, where a higher level is proven; or, under
    `NEVER`, any that is ready where nothing failed."""
    unused = [one for one in tried if one.verdict == "ready" and _promises(level, one.query) is False]
    proven = proven_by(tried)
    if proven is None:
        failed = any(one.verdict in _FAILED for one in tried)
        return unused[-1] if unused and level == _NEVER and not failed else None
    return unused[-1] if unused and LEVELS.index(proven.level) > LEVELS.index(level) else None


def _promises(level: str, query: Query) -> bool | None:
    """None where it depends on what is not known of the bucket."""
    if level in (_NEVER, _ALWAYS):
        return level == _ALWAYS
    if query is None:
        return None
    return query == 1 if level == _SINGLE else query != "mixed"


def _all_ready(verdicts: Sequence[Verdict]) -> bool:
    return bool(verdicts) and all(verdict == "ready" for verdict in verdicts)
