"""Proves one target on one device, over its buckets. If there are several ranks, it proves one rank."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import BrokenBarrierError
from typing import Any

from graphsafe.capture.answers.build import Built, TargetFailure
from graphsafe.capture.parent.buckets.sharing import Sharing
from graphsafe.capture.parent.finding_table import at_configured_levels
from graphsafe.capture.parent.findings import findings_of
from graphsafe.capture.parent.growth import said_of
from graphsafe.capture.parent.limits import doubts_of, is_given
from graphsafe.capture.parent.probes import DeviceAnswers, reported
from graphsafe.capture.parent.ranks.rank import Rank
from graphsafe.capture.parent.run import Run
from graphsafe.capture.parent.supervision.supervisor import Supervisor
from graphsafe.capture.request import INTERNAL, CaptureRequest
from graphsafe.capture.shared.job import PoolMember
from graphsafe.files import ensure_working_directory
from graphsafe.report.model import Bucket, DeviceResult, Finding, Limit
from graphsafe.report.pool import Pool, pool_verdict
from graphsafe.report.text import bucket_name, listed
from graphsafe.report.verdict import worst
from graphsafe.rulebook.book import Rulebook

Axes = Mapping[str, Any]

_NOT_NCCL = (
    "gloo runs them on the host: the operations that NCCL refuses in a capture, NCCL's stream and NCCL's times are not "
    "known"
)


@dataclass
class DeviceProof:
    """The proof on one device. After `run()`, the fields `runs`, `findings` and `limits` have its results."""

    name: str
    request: CaptureRequest
    book: Rulebook
    points: Sequence[Axes]
    "The buckets that are proven one by one."
    unproven: Sequence[Axes] = ()
    "The buckets that are only captured in the shared pool."
    rank: Rank = field(default_factory=Rank)
    runs: list[tuple[Axes, DeviceAnswers]] = field(default_factory=list)
    of_bucket: list[Sequence[Finding]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    _directory: str = field(default_factory=os.getcwd)
    _folders: list[Path] = field(default_factory=list)
    _pool: Pool | None = None

    def run(self, supervisor: Supervisor, folder: Path) -> None:
        supervisor.timeout = self.request.timeout
        supervisor.coordinator = self.rank.coordinator
        with supervisor:
            if self.rank.reported is not None and self.name.startswith("sim"):
                self.limits.append(Limit("simulated", "collectives", _NOT_NCCL))
            for number, axes in enumerate(self.points):
                place = folder / f"{self.name.replace(':', '-')}-{number}"
                place.mkdir()
                if not self.rank.all(self._prove(supervisor, axes, place)):
                    return
            self._share_a_pool(supervisor, folder)

    def _prove(self, supervisor: Supervisor, axes: Axes, place: Path) -> bool:
        """Prove one bucket. Return whether further buckets can be tried."""
        run = Run(supervisor, self.request, self.name, axes, place, rank=self.rank)
        started = time.monotonic()
        try:
            seen = run.prove()
        except (KeyboardInterrupt, BrokenBarrierError):
            self.runs.append((axes, run.seen()))
            raise
        seen = _timed(seen, run, time.monotonic() - started)
        self._folders.append(place)
        if any(limit.kind == INTERNAL for limit in run.limits):
            seen = replace(seen, verdict=worst((seen.verdict, "inconclusive")))
        self.runs.append((axes, seen))
        ensure_working_directory(self._directory)
        findings, without_line = findings_of(seen, self.book)
        self.of_bucket.append(findings)
        self._add(*at_configured_levels(findings, seen, self.book), *run.limits, *without_line)
        self._add(*said_of(seen, self.book))
        bucket = f" with {bucket_name(axes)}" if axes else ""
        self._add(*doubts_of(seen, run.limits, f"{self.request.called}{bucket}{self.rank.named('in')}"))
        failure = seen.answers.get(TargetFailure)
        return failure is None or failure.stage != "import"

    def _share_a_pool(self, supervisor: Supervisor, folder: Path) -> None:
        """Capture, together in one pool, the buckets that are ready by themselves."""
        ready = [
            (PoolMember(axes, str(place), alone), seen)
            for (axes, seen), place, alone in zip(self.runs, self._folders, self._alone_bytes(), strict=True)
            if self.rank.all(seen.verdict == "ready") and axes
        ]
        candidates = [candidate for candidate, _ in ready]
        if self.unproven and ready:
            empty = folder / "not-proven"
            empty.mkdir(exist_ok=True)
            candidates += [PoolMember(axes, str(empty), None) for axes in self.unproven]
            names = listed([bucket_name(axes) for axes in self.unproven], most=8)
            self.limits.append(Limit("sampled", names, "captured in the pool, but not proven by themselves"))
        if len(candidates) < 2:
            return
        sharing = Sharing(supervisor, self.request, self.name, folder / self.name.replace(":", "-"), self.rank)
        sharing.run(candidates)
        self._pool = sharing.pool
        self.limits += sharing.limits
        doubt = "" if self._pool is None else self._pool.reason or ""
        if pool_verdict(self._pool) == "inconclusive" and not is_given(doubt, sharing.limits):
            self.limits.append(Limit("pool", f"buckets on {self.name}", doubt))
        seen = ready[0][1]
        self._add(*sharing.findings(seen.answers[Built].entry, self.book, seen.source))

    def _alone_bytes(self) -> list[int | None]:
        """Return the bytes of each bucket's graph in its own pool. If there are several ranks, return for each bucket
        the largest number of all ranks."""
        own = [seen.probes.memory.pool_bytes for _, seen in self.runs]
        of_ranks = self.rank.gather(own)
        return [max((one for one in each if one is not None), default=None) for each in zip(*of_ranks, strict=True)]

    def _add(self, *said: Finding | Limit | None) -> None:
        self.findings += [one for one in said if isinstance(one, Finding)]
        self.limits += [one for one in said if isinstance(one, Limit)]

    def result(self) -> DeviceResult:
        buckets = tuple(
            Bucket(axes, seen.verdict, reported(seen.probes), seen.probes.memory.pool_bytes) for axes, seen in self.runs
        )
        verdict = worst(bucket.verdict for bucket in buckets)
        probes = next((bucket.probes for bucket in buckets if bucket.verdict == verdict), {})
        named = buckets if any(axes for axes, _ in self.runs) else ()
        if self._pool is not None:
            verdict = worst((verdict, pool_verdict(self._pool)))
        return DeviceResult(self.name, verdict, named, probes, rank=self.rank.reported, pool=reported(self._pool))


def _timed(seen: DeviceAnswers, run: Run, seconds: float) -> DeviceAnswers:
    """Add the times of the run and of its children. If the children did not share imports, also add the reason."""
    timing = replace(
        seen.probes.timing,
        seconds=round(seconds, 2),
        children=run.seconds,
        spent=run.spent,
        not_shared=run.supervisor.not_shared,
    )
    return replace(seen, probes=replace(seen.probes, timing=timing))
