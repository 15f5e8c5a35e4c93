"""Coordinates, in the parent, the ranks that run the same children at the same time. Joins the decisions that the ranks
make together, and finds children that must be ended because another rank cannot continue."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any, TypeVar

from graphsafe.capture.answers.build import BrokenBy, TargetFailure
from graphsafe.capture.parent.ranks.divergence import first_difference, read_issued
from graphsafe.capture.parent.supervision.child_process import Child
from graphsafe.capture.shared.collectives import Call
from graphsafe.capture.shared.job import WAITS_FOR_RANKS

Value = TypeVar("Value")

_GRACE = 2.0
"""Seconds that a child may continue after another rank's child has failed. The child may report the same failure in
this time."""
_LOOK = 0.5
"""Seconds between two reads of the collectives that ranks have issued. If reading takes more than a twentieth of this
time, the pause is longer."""


@dataclass
class _Siblings:
    """The same child in every rank."""

    children: dict[int, Child] = field(default_factory=dict)
    failed: dict[int, float] = field(default_factory=dict)
    "Rank whose child failed -> the time at which that was noticed."
    next_look: float = 0.0
    divergence: dict[int, Call | None] | None = None


class Coordinator:
    """Coordinates the ranks of a target. Each rank has a thread, and all threads share this object. A target without
    ranks registers no children, because none of them waits for another."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = threading.Barrier(size)
        self._said: list[Any] = [None] * size
        self._siblings: dict[str, _Siblings] = {}
        self._lock = threading.Lock()

    def gather(self, rank: int, value: Value) -> list[Value]:
        """Return the value of every rank, in order of rank. Raises threading.BrokenBarrierError after `abandon`."""
        self._said[rank] = value
        self._barrier.wait()
        said = list(self._said)
        self._barrier.wait()
        return said

    def abandon(self) -> None:
        """Tell the threads of other ranks that this thread has ended early."""
        self._barrier.abort()

    def started(self, child: Child) -> None:
        if self.size == 1:
            return
        with self._lock:
            self._siblings.setdefault(child.job.rendezvous, _Siblings()).children[child.job.rank] = child

    def ended(self, child: Child) -> None:
        well = child.ended.how == "done" and BrokenBy not in child.answers
        if not well and child.ended.how != "stopped" and child.job.rendezvous in self._siblings:
            with self._lock:
                self._siblings[child.job.rendezvous].failed[child.job.rank] = time.monotonic()

    def why_lost(self, child: Child) -> str | None:
        """Return the reason why this child, which still runs, cannot finish. Return None if the child can finish."""
        with self._lock:
            siblings = self._siblings.get(child.job.rendezvous)
            if siblings is None:
                return None
            now = time.monotonic()
            first = min(siblings.failed.values(), default=now)
            if now - first > _GRACE:
                return f"rank {_first(siblings)} had ended"
            if now > siblings.next_look:
                self._compare_collectives(siblings)
                siblings.next_look = time.monotonic() + max(_LOOK, 20 * (time.monotonic() - now))
            return "the ranks do not issue the same collectives" if siblings.divergence else None

    def first_to_fail(self, child: Child) -> bool:
        """Return False if another rank's child of this kind failed earlier. The result is known only when all children
        of this kind have ended."""
        with self._lock:
            siblings = self._siblings.get(child.job.rendezvous)
            return siblings is None or _first(siblings) in (None, child.job.rank)

    def divergence(self, child: Child) -> dict[int, Call | None] | None:
        """Return each rank's first collective without a match. Return None if the children ended for another reason."""
        with self._lock:
            siblings = self._siblings.get(child.job.rendezvous, _Siblings())
            self._compare_collectives(siblings)
            return siblings.divergence

    def _compare_collectives(self, siblings: _Siblings) -> None:
        """Look for the first collectives that do not match. A rank that waits for all ranks issues no further
        collectives. So if another rank has issued more, the mismatch is certain."""
        if siblings.divergence or len(siblings.children) < self.size:
            return
        children = [siblings.children[rank] for rank in range(self.size)]
        met = [_meetings(child) for child in children]
        waiting = [child.end is None and child.phase == WAITS_FOR_RANKS for child in children]
        found = first_difference([read_issued(child.folder, child.name) for child in children])
        if found is None:
            return
        missing = {rank for rank, call in found.items() if call is None}
        # Read the states again: since the first read, a rank may have reached the point at which the others wait.
        behind = [_meetings(child) for child in children]
        ahead = found.keys() - missing
        if all(waiting[rank] and all(behind[other] < met[rank] for other in ahead) for rank in missing):
            siblings.divergence = found


def _first(siblings: _Siblings) -> int | None:
    """Return the rank that failed first. The order is given by the times in the ranks' own reports. If there is no
    report, the time of the child's end, or of its last sign of life, is used. Errors that other ranks report later (a
    closed connection) follow from the first failure."""

    def when(rank: int) -> float:
        child = siblings.children[rank]
        failure = child.answers.get(TargetFailure)
        if failure is not None:
            return failure.at
        if child.stopped_at is not None:
            return child.stopped_at
        phases = child.phases
        return phases[-1].began if phases and child.ended.how == "crashed" else siblings.failed[rank]

    return min(siblings.failed, key=when, default=None)


def _meetings(child: Child) -> int:
    """Return how often the child has reached a point at which it waits for all ranks."""
    return sum(phase.name == WAITS_FOR_RANKS for phase in child.phases)
