"""Captures the buckets of a device in one pool. This module, in the parent, chooses the buckets and judges the
result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphsafe.capture.answers.pool import CapturedBuckets, Capturing, FailedBucket, Mixed, Padding, Together
from graphsafe.capture.parent.finding_table import finding_at
from graphsafe.capture.parent.jobs import job_of
from graphsafe.capture.parent.probes import reported
from graphsafe.capture.parent.ranks.rank import Rank
from graphsafe.capture.parent.supervision.child_process import Child
from graphsafe.capture.parent.supervision.supervisor import Supervisor
from graphsafe.capture.request import INTERNAL, CaptureRequest
from graphsafe.capture.shared.job import PoolMember
from graphsafe.report.model import CallSite, Finding, Level, Limit, Source
from graphsafe.report.pool import NotCaptured, Pool, padding_of
from graphsafe.report.probes.probe import Error, ProbeStatus
from graphsafe.report.text import bucket_name, count, listed
from graphsafe.rulebook.book import Rulebook

_MOST_TRIES = 3
"The largest number of tries. Each try leaves out the buckets at which earlier tries ended."
Axes = Mapping[str, Any]


@dataclass
class Sharing:
    """The shared capture. After `run()`, `pool` is the report's part about this capture, and `findings` returns
    findings and limits."""

    supervisor: Supervisor
    request: CaptureRequest
    device: str
    folder: Path
    rank: Rank
    "The rank of this run. All ranks capture the same buckets in the same order."
    limits: list[Limit] = field(default_factory=list)
    pool: Pool | None = None
    _failed: list[FailedBucket] = field(default_factory=list)

    def run(self, candidates: Sequence[PoolMember]) -> None:
        """Capture two or more candidates together. If the child ends because of a bucket, try again without that
        bucket."""
        ordered = sorted(candidates, key=lambda one: (_size(one.axes), one.alone_bytes or 0), reverse=True)
        without: list[Axes] = []
        for _ in range(_MOST_TRIES):
            left = [one for one in ordered if one.axes not in without]
            if len(left) < 2:
                return
            place = self.folder / f"pool-{len(without)}"
            place.mkdir(parents=True)
            ranks = self.rank.job_fields(place.name)
            job = job_of(self.request, "pool", place, self.device, left[0].axes, buckets=tuple(left), **ranks)
            child = self.supervisor.run(job)
            ended = self._ended_by(child)
            self.pool = self._pool(child, left)
            ended = self.rank.first(ended)
            if ended is None:
                return
            without.append(ended)

    def _ended_by(self, child: Child) -> Axes | None:
        """Return the bucket that could not be built, stepped or captured together with the others, or None."""
        end, capturing, failed = child.ended, child.answers[Capturing].axes, child.answers.get(FailedBucket)
        if end.how == "fault":
            self.limits.append(Limit(INTERNAL, f"pool on {self.device}", end.why))
            return None
        if end.how == "target" and capturing is not None:
            self.limits.append(Limit("pool", bucket_name(capturing), end.why))
            return capturing
        if failed is None and end.how == "crashed" and capturing is not None:
            failed = FailedBucket(capturing, Error(end.why))
        self._failed += [] if failed is None else [failed]
        return None if failed is None else failed.axes

    def _pool(self, child: Child, buckets: Sequence[PoolMember]) -> Pool:
        """Return the `pool` part of the report, from this child's answers."""
        answers, end = child.answers, child.ended
        captured, together, mixed = answers[CapturedBuckets], answers[Together], answers[Mixed]
        padding = answers.get(Padding)
        entries = () if padding is None else padding.entries or ()
        pairs = zip(captured.buckets, buckets, strict=False)  # the child captures the buckets in their order
        kept = tuple(replace(one, alone_bytes=bucket.alone_bytes) for one, bucket in pairs)
        total = captured.pool_bytes
        apart = [one.alone_bytes for one in kept if one.alone_bytes is not None]
        status, reason = self._status(child, padding is not None)
        if end.how in ("target", "state", "fault"):
            self.limits.append(Limit("pool", f"buckets on {self.device}", f"not captured in one pool: {end.why}"))
        if mixed.refused:
            why = f"their eager steps fail when they share a process: {mixed.refused}"
            self.limits.append(Limit("pool", f"buckets on {self.device}", why))
        self.limits += [Limit("padding", bucket_name(one.axes), one.error) for one in entries if one.error]
        broken = [one.error for one in entries if one.error and padding_of(one) is None]
        if broken and status == "pass":
            status, reason = "crashed", f"a replay with fewer requests failed: {broken[0]}"
        if self._failed or mixed.different or any(padding_of(one) == "always" for one in entries):
            status = "fail"
        return Pool(
            status,
            reason,
            seconds=round(child.seconds, 2),
            buckets=kept,
            pool_bytes=total,
            saved_bytes=sum(apart) - total if total is not None and len(apart) == len(buckets) else None,
            peak_bytes=together.peak_bytes,
            replays=mixed.replays,
            different=mixed.different,
            overwritten=mixed.overwritten,
            depends_on_order=mixed.depends_on_order,
            shared=together.shared,
            padding=None if padding is None else padding.entries,
            failed=tuple(NotCaptured(one.axes, one.first_error.message) for one in self._failed),
        )

    def _status(self, child: Child, padding_began: bool) -> tuple[ProbeStatus, str | None]:
        """Return the status of the pool and the reason for it. Status and reason follow from the child's end."""
        end = child.ended
        if end.how in ("target", "state", "fault"):
            return "skipped", end.why
        if end.status == "skipped" or child.answers[Capturing].axes is not None:
            return "pass", None
        if padding_began and end.how == "crashed":
            self.limits.append(Limit("padding", f"pool on {self.device}", end.why))
            return "crashed", f"a replay with fewer requests broke the process: {end.why}"
        return end.status, end.why

    def findings(self, entry: CallSite | None, book: Rulebook, source: Source) -> list[Finding | Limit]:
        """Return findings and limits. A failed capture is reported at the line that failed, everything else at the step
        itself."""
        found: list[Finding | Limit] = []
        pool = self.pool
        if pool is None:
            return found

        def add(
            frame: CallSite | None, code: str, level: Level, expr: str, because: str, data: Mapping[str, Any]
        ) -> None:
            rule, words = book.rules[code], {"expr": expr, "value": expr}
            found.append(finding_at(frame, rule, "buckets", level, words, because, data, self.device, source))

        for failed in self._failed:
            frame = next(iter(reversed(failed.first_error.frames)), entry)
            because = f"Here {bucket_name(failed.axes)} is captured alone, but not after other buckets."
            add(frame, "GS607", "error", failed.first_error.message, because, {"bucket": failed.axes})
        for each in pool.different[:1]:
            name, after = bucket_name(each.axes), bucket_name(each.after)
            shares = f" They share {listed(pool.shared, most=3)}." if pool.shared else ""
            because = f"Here a replay of {name} after one of {after} equals neither {name} alone nor eager "
            because += f"steps in that order.{shares}"
            add(entry, "GS704", "error", f"{name}, {listed(each.outputs, most=3)}", because, reported(each))
        for lost in [one for one in pool.overwritten if one.static][:1]:
            name = bucket_name(lost.axes)
            because = f"Here a replay of {bucket_name(lost.by)} changed {listed(lost.outputs, most=3)} of {name}."
            add(entry, "GS706", "warning", name, because, reported(lost))
        padded = [(padding_of(one), one) for one in pool.padding or ()]
        for kind, level, text in _PADDINGS:
            for one in [one for found_kind, one in padded if found_kind == kind][:1]:
                expr = f"{bucket_name(one.axes)} with {count(one.live, 'live request')}"
                add(entry, "GS708", level, expr, _BREAKS if one.error else text, reported(one))
        return found


_BREAKS = (
    "Here a replay fails if the padding rows hold another batch, with integers that no live row has; "
    "with zeros or a repeated request it does not."
)
_PADDINGS: tuple[tuple[str, Level, str], ...] = (
    (
        "always",
        "error",
        "Here no padding value helps: zeros, a repeated request and another batch in those rows all change results.",
    ),
    ("unless filled", "note", "Here rows of another batch change the results; zeros or a repeated request do not."),
    (
        "nan only",
        "note",
        "Here only NaN in those rows reaches the results; uninitialized memory may hold it.",
    ),
)


def sample_of(points: Sequence[Axes], number: int | None) -> list[Axes]:
    """Choose `number` buckets: the smallest, the largest, and others evenly between them. None chooses all."""
    if number is None or number >= len(points):
        return list(points)
    by_size = sorted(range(len(points)), key=lambda at: _size(points[at]))
    chosen = {by_size[round(place * (len(points) - 1) / (number - 1))] for place in range(number)}
    return [points[at] for at in sorted(chosen)]


def _size(axes: Axes) -> float:
    return math.prod(value for value in axes.values() if isinstance(value, (int, float)) and value > 0)
