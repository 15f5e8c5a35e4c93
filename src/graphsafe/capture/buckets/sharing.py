"""The buckets of a device in one pool, seen from the parent: which are captured together, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsafe.capture.job import Job, job_of
from graphsafe.capture.line_finding import finding_at
from graphsafe.capture.probe_form import held_by_place
from graphsafe.capture.request import INTERNAL
from graphsafe.report.model import Finding, Level, Limit, Source
from graphsafe.report.pool import padding_of
from graphsafe.report.text import bucket_name, listed
from graphsafe.rulebook import Rulebook

if TYPE_CHECKING:
    from graphsafe.capture.processes.child_process import Child
    from graphsafe.capture.processes.supervisor import Supervisor
    from graphsafe.capture.ranks.rank import Rank
    from graphsafe.capture.request import CaptureRequest

_MOST_RETRIES = 2
"Each without the bucket that ended the one before."
Axes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A bucket that may be captured with others."""

    axes: Axes
    folder: Path
    alone_bytes: int | None
    "What its graph holds in a pool of its own."


@dataclass
class Sharing:
    """`run()` captures them; then `pool` is what the report says, and findings and limits can be asked for."""

    supervisor: Supervisor
    request: CaptureRequest
    device: str
    folder: Path
    rank: Rank | None = None
    "Of several ranks, which then all capture the same buckets in the same order."
    limits: list[Limit] = field(default_factory=list)
    pool: dict[str, Any] | None = None
    _failed: list[dict[str, Any]] = field(default_factory=list)

    def run(self, candidates: Sequence[Candidate]) -> None:
        left = largest_first(candidates)
        for attempt in range(_MOST_RETRIES + 1):
            if len(left) < 2:
                break
            place = self.folder / f"pool-{attempt}"
            place.mkdir(parents=True)
            child = self.supervisor.run(self._job(left, place))
            reported: Mapping[str, Any] = child.result
            ended = self._ended_by(child, reported)
            self.pool = self._pool(child, reported, left)
            if self.rank is not None:
                ended = self.rank.first(ended)
            if ended is None:
                return
            left = [one for one in left if one.axes != ended]

    def _job(self, buckets: Sequence[Candidate], place: Path) -> Job:
        together = tuple({"axes": dict(one.axes), "folder": str(one.folder)} for one in buckets)
        ranks = {} if self.rank is None else self.rank.job_fields(place.name)
        return job_of(self.request, "pool", place, self.device, buckets[0].axes, buckets=together, **ranks)

    def _ended_by(self, child: Child, reported: Mapping[str, Any]) -> Axes | None:
        """The bucket that could not be built, stepped or captured beside the others."""
        axes: Axes
        if child.ending == "failed":
            self.limits.append(Limit(INTERNAL, f"pool on {self.device}", child.how_it_ended()))
            return None
        if reported.get("target_error") and reported.get("capturing"):
            axes = reported["capturing"]
            self.limits.append(Limit("pool", bucket_name(axes), reported["target_error"]["line"]))
            return axes
        if reported.get("failed"):
            self._failed.append(reported["failed"])
            axes = reported["failed"]["axes"]
            return axes
        if child.ending == "crashed" and reported.get("capturing"):
            axes = reported["capturing"]
            self._failed.append({"axes": axes, "first_error": {"message": child.how_it_ended()}})
            return axes
        return None

    def _pool(self, child: Child, reported: Mapping[str, Any], buckets: Sequence[Candidate]) -> dict[str, Any]:
        alone = {bucket_name(one.axes): one.alone_bytes for one in buckets}
        captured = [
            {
                **one,
                "alone_bytes": alone.get(bucket_name(one["axes"])),
                "held": one["held"] and held_by_place(one["held"]),
            }
            for one in reported.get("captured") or ()
        ]
        known = [one["alone_bytes"] for one in captured]
        total = reported.get("pool_bytes")
        whole = total is not None and None not in known and len(known) == len(buckets)
        pool: dict[str, Any] = {
            "status": "pass",
            "reason": None,
            "seconds": round(child.seconds, 2),
            "buckets": captured,
            "pool_bytes": total,
            "saved_bytes": sum(known) - total if whole else None,
            "peak_bytes": reported.get("peak_bytes"),
            "replays": reported.get("replays") or 0,
            "different": reported.get("different") or [],
            "overwritten": reported.get("overwritten") or [],
            "depends_on_order": reported.get("depends_on_order") or [],
            "shared": reported.get("shared") or [],
            "padding": reported.get("padding"),
            "failed": [{"axes": one["axes"], "message": one["first_error"]["message"]} for one in self._failed],
        }
        error = reported.get("target_error")
        if child.ending in ("crashed", "timeout") and not reported.get("capturing"):
            pool |= {"status": child.ending, "reason": child.how_it_ended()}
            if reported.get("padding_began") and child.ending == "crashed":
                pool["status"] = "pass"  # a fill broke the process; what was compared before it stands
                self.limits.append(Limit("padding", f"pool on {self.device}", child.how_it_ended()))
        elif error is not None or "state_error" in reported or child.ending == "failed":
            why = error["line"] if error is not None else reported.get("state_error") or child.how_it_ended()
            pool |= {"status": "skipped", "reason": why}
            self.limits.append(Limit("pool", f"buckets on {self.device}", f"not captured in one pool: {why}"))
        if reported.get("refused"):
            why = f"their eager steps fail beside each other: {reported['refused']}"
            self.limits.append(Limit("pool", f"buckets on {self.device}", why))
        for entry in pool["padding"] or ():
            if entry["error"]:
                self.limits.append(Limit("padding", bucket_name(entry["axes"]), entry["error"]))
        leaks = any(padding_of(entry) == "always" for entry in pool["padding"] or ())
        if pool["failed"] or pool["different"] or leaks:
            pool["status"] = "fail"
        return pool

    def findings(self, entry: Mapping[str, Any] | None, book: Rulebook, source: Source) -> list[Finding | Limit]:
        """At the step itself, for lack of a better line; at the failing one for a capture that failed."""
        found: list[Finding | Limit] = []
        pool = self.pool
        if pool is None:
            return found

        def add(
            frame: Mapping[str, Any] | None, code: str, level: Level, expr: str, because: str, data: Mapping[str, Any]
        ) -> None:
            rule, words = book.rules[code], {"expr": expr, "value": expr}
            found.append(finding_at(frame, rule, "buckets", level, words, because, data, self.device, source))

        for failed in self._failed:
            name, error = bucket_name(failed["axes"]), failed["first_error"]
            frame = next(iter(reversed(error.get("frames") or ())), entry)
            because = f"Here {name} is captured alone, but not after other buckets."
            add(frame, "GS607", "error", error["message"], because, {"bucket": failed["axes"]})
        for each in pool["different"][:1]:
            name, after = bucket_name(each["axes"]), bucket_name(each["after"])
            shares = f" They share {listed(pool['shared'], most=3)}." if pool["shared"] else ""
            because = f"Here a replay of {name} after one of {after} gives neither what it gives alone nor what eager "
            because += f"steps in that order give.{shares}"
            add(entry, "GS704", "error", f"{name}, {listed(each['outputs'], most=3)}", because, each)
        for each in [one for one in pool["overwritten"] if one["static"]][:1]:
            name, other = bucket_name(each["axes"]), bucket_name(each["by"])
            because = f"Here a replay of {other} changed {listed(each['outputs'], most=3)} of {name}."
            add(entry, "GS706", "warning", name, because, each)
        padded = [(padding_of(one), one) for one in pool["padding"] or ()]
        for kind, level, text in _PADDINGS:
            for one in [one for found_kind, one in padded if found_kind == kind][:1]:
                name = bucket_name(one["axes"])
                live = "1 live request" if one["live"] == 1 else f"{one['live']} live requests"
                add(entry, "GS708", level, f"{name} with {live}", text, one)
        return found


_PADDINGS: tuple[tuple[str, Level, str], ...] = (
    (
        "always",
        "error",
        "Here no filling helps: beside zeros, a repeated request or another batch they are not what they are alone.",
    ),
    ("unless filled", "note", "Here rows of another batch change the results; zeros or a repeated request do not."),
    (
        "nan only",
        "note",
        "Here only NaN in those rows reaches the results: memory that nobody has written may hold it.",
    ),
)


def sample_of(points: Sequence[Axes], number: int | None) -> list[Axes]:
    """So many of them, in their order: the smallest, the largest and what lies evenly between; all without a number."""
    if number is None or number >= len(points):
        return list(points)
    by_size = sorted(range(len(points)), key=lambda at: _size(points[at]))
    chosen = {by_size[round(place * (len(points) - 1) / (number - 1))] for place in range(number)}
    return [points[at] for at in sorted(chosen)]


def largest_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """By the product of their numbers, then by the bytes that each takes by itself."""

    return sorted(candidates, key=lambda one: (_size(one.axes), one.alone_bytes or 0), reverse=True)


def _size(axes: Axes) -> float:
    return math.prod(value for value in axes.values() if isinstance(value, (int, float)) and value > 0)
