"""Compares the support that was proven with the support that is declared: the report's `support`, and GS801."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphsafe.capture.answers.build import Declaration
from graphsafe.capture.parent.buckets.support import Tried, over_declared, proven_by, under_declared
from graphsafe.capture.parent.line_finding import finding_at
from graphsafe.capture.shared.places import shown
from graphsafe.report.model import CallSite, Declared, Finding, Limit, Source, Support
from graphsafe.report.probes.timing import Timing
from graphsafe.report.text import bucket_name
from graphsafe.rulebook.book import Rule

_TOO_LITTLE = "Declared too little costs speed, and nobody notices: the engine runs such batches eagerly or in pieces."


def support_of(tried: Sequence[Tried], declared: Declaration | None) -> Support | None:
    """Return the report's `support`, or None if there are no buckets and no declaration."""
    if declared is None and not any(one.axes for one in tried):
        return None
    said = None
    if declared is not None:
        where = None if declared.path is None else f"{shown(declared.path)}:{declared.line}"
        said = Declared(declared.level, where, declared.words)
    return Support(proven_by(tried), said)


def mismatch(
    tried: Sequence[Tried],
    declared: Declaration,
    entry: CallSite | None,
    failures: Mapping[int, Finding],
    rule: Rule,
    source: Source,
) -> Finding | Limit | None:
    """Return a finding or limit if proof and declaration disagree, at the declaration or else at the step itself
    (`entry`).

    `failures` holds the first error of each failed bucket, by its index in `tried`.
    """
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


def _named(bucket: Tried) -> str:
    return bucket_name(bucket.axes) or "the step"
