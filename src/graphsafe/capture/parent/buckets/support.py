"""Compares the support that was proven with the support that is declared. Makes the report's `support` and the finding
GS801."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphsafe.capture.answers.build import Declaration
from graphsafe.capture.parent.finding_table import finding_at
from graphsafe.capture.shared.axes import Query, query_of
from graphsafe.capture.shared.places import shown
from graphsafe.config import SUPPORT_LEVELS as LEVELS
from graphsafe.report.model import CallSite, Declared, Finding, Limit, Proven, Source, Support, Verdict
from graphsafe.report.probes.timing import Timing
from graphsafe.report.text import bucket_name
from graphsafe.rulebook.rule import Rule

_NEVER, _SINGLE, _UNIFORM, _ALWAYS = LEVELS
_FAILED: tuple[Verdict, ...] = ("not-ready", "ready-with-breaks")
"Verdicts that contradict a declaration, because a declaration always promises a single graph for the whole step."


@dataclass(frozen=True, slots=True)
class BucketResult:
    """A bucket that was run. `verdict` is the worst verdict of all devices."""

    axes: Mapping[str, Any]
    verdict: Verdict
    timing: Timing = field(default_factory=Timing)
    "The times of the first device for which times were measured."

    @property
    def query(self) -> Query:
        return query_of(self.axes)


def proven_by(tried: Sequence[BucketResult]) -> Proven | None:
    """Return the support that the buckets prove. Return None if no query length is known, or if the verdict for the
    shortest length is undecided."""
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


def over_declared(level: str, tried: Sequence[BucketResult]) -> BucketResult | None:
    """Return the first bucket that the declared level promises and that cannot be captured, or None."""
    return next((one for one in tried if one.verdict in _FAILED and _promises(level, one.query)), None)


def under_declared(level: str, tried: Sequence[BucketResult]) -> BucketResult | None:
    """Return a ready bucket that the declared level does not promise, or None. The bucket is returned only if the
    buckets prove a higher level than the declared one. If the buckets prove no level at all, a bucket is returned only
    if the declared level is `NEVER` and no bucket failed."""
    unused = [one for one in tried if one.verdict == "ready" and _promises(level, one.query) is False]
    proven = proven_by(tried)
    if proven is None:
        failed = any(one.verdict in _FAILED for one in tried)
        return unused[-1] if unused and level == _NEVER and not failed else None
    return unused[-1] if unused and LEVELS.index(proven.level) > LEVELS.index(level) else None


def _promises(level: str, query: Query) -> bool | None:
    """Return whether the level promises graphs for this query length; None if that is not known."""
    if level in (_NEVER, _ALWAYS):
        return level == _ALWAYS
    if query is None:
        return None
    return query == 1 if level == _SINGLE else query != "mixed"


def _all_ready(verdicts: Sequence[Verdict]) -> bool:
    return bool(verdicts) and all(verdict == "ready" for verdict in verdicts)


_TOO_LITTLE = "Declaring too little silently costs speed: the engine runs such batches eagerly or in pieces."


def support_of(tried: Sequence[BucketResult], declared: Declaration | None) -> Support | None:
    """Return the report's `support`. Return None if there are neither buckets nor a declaration."""
    if declared is None and not any(one.axes for one in tried):
        return None
    said = None
    if declared is not None:
        where = None if declared.path is None else f"{shown(declared.path)}:{declared.line}"
        said = Declared(declared.level, where, declared.words)
    return Support(proven_by(tried), said)


def mismatch(
    tried: Sequence[BucketResult],
    declared: Declaration,
    entry: CallSite | None,
    failures: Mapping[int, Finding],
    rule: Rule,
    source: Source,
) -> Finding | Limit | None:
    """Return a finding or limit if the proof contradicts the declaration. The finding or limit points to the
    declaration, or to the step (`entry`) if the declaration has no line. `failures` has the first error of each failed
    bucket, by the bucket's index in `tried`."""
    if declared.level is None:
        return None
    frame = CallSite(declared.path, declared.line or 0, None) if declared.path else entry
    over = over_declared(declared.level, tried)
    if over is not None:
        failure = failures.get(tried.index(over))
        data: dict[str, Any] = {"declared": declared.level, "bucket": dict(over.axes)}
        because = ""
        if failure is not None:
            at = failure.location
            data |= {"code": failure.code, "path": at.path, "line": at.line}
            because = f"Here {_named(over)} fails at {at.path}:{at.line}: {failure.message} ({failure.code})."
        words = {"expr": declared.words, "value": _named(over)}
        return finding_at(frame, rule, "over-declared", "error", words, because, data, None, source)
    under = under_declared(declared.level, tried) if declared.exact else None
    if under is None:
        return None
    proven, timing = proven_by(tried), under.timing
    data = {
        "declared": declared.level,
        "proven": None if proven is None else proven.level,
        "bucket": dict(under.axes),
        "eager_ms": timing.eager_ms,
        "graph_ms": timing.graph_ms,
        "times_as_fast": timing.times_as_fast,
    }
    because = f"Here {_named(under)} was captured and replayed correctly{_gain(timing)}."
    words = {"expr": declared.words, "value": _named(under)}
    return finding_at(frame, rule, "under-declared", "warning", words, because, data, None, source, _TOO_LITTLE)


def _gain(timing: Timing) -> str:
    if timing.times_as_fast is None:
        return "; how much faster that is was not measured"
    took = f"{timing.graph_ms:.3g} ms against {timing.eager_ms:.3g} ms"
    return f", {timing.times_as_fast:.1f} times as fast as an eager step ({took})"


def _named(bucket: BucketResult) -> str:
    return bucket_name(bucket.axes) or "the step"
