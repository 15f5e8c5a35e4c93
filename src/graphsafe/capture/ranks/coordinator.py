"""The parent's side of ranks that run the same children at the same time: decisions they make together, and which of
them has to be ended because another cannot go on."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsafe.capture.job import read_phases
from graphsafe.capture.ranks.divergence import first_difference, read_issued
from graphsafe.capture.ranks.group import WAITS
from graphsafe.capture.ranks.issued import Call

if TYPE_CHECKING:
    from graphsafe.capture.processes.child_process import Child

_GRACE = 2.0
"Seconds that a child goes on after another rank's failed: it may be about to fail for the same reason, and say so."
_LOOK = 0.5
"Seconds between looks at what the ranks have issued, and as often as a look takes a twentieth of them."


@dataclass
class _Siblings:
    """The same child in every rank."""

    children: dict[int, Child] = field(default_factory=dict)
    failed: dict[int, float] = field(default_factory=dict)
    "Ranks in which it ended badly, and when it was noticed."
    next_look: float = 0.0
    divergence: dict[int, Call | None] | None = None


class Coordinator:
    """Shared by the threads of all ranks of one target, one thread a rank."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = threading.Barrier(size)
        self._said: list[Any] = [None] * size
        self._siblings: dict[str, _Siblings] = {}
        self._lock = threading.Lock()

    def gather(self, rank: int, value: Any) -> list[Any]:
        """What each rank says, in order. Raises threading.BrokenBarrierError after `abandon`."""
        self._said[rank] = value
        self._barrier.wait()
        said = list(self._said)
        self._barrier.wait()
        return said

    def abandon(self) -> None:
        """One of the threads has ended before its time."""
        self._barrier.abort()

    def started(self, child: Child) -> None:
        with self._lock:
            self._siblings.setdefault(child.job.rendezvous, _Siblings()).children[child.job.rank] = child

    def ended(self, child: Child) -> None:
        reported = child.result
        well = child.ending == "done" and not reported.keys() & {"target_error", "state_error", "broken_by"}
        if not well and child.ending != "stopped":
            with self._lock:
                self._siblings[child.job.rendezvous].failed[child.job.rank] = time.monotonic()

    def why_lost(self, child: Child) -> str | None:
        """Why this child, which still runs, cannot come to its end."""
        with self._lock:
            siblings = self._siblings[child.job.rendezvous]
            now = time.monotonic()
            first = min(siblings.failed.values(), default=now)
            if now - first > _GRACE:
                return f"rank {_first(siblings)} had ended"
            if now > siblings.next_look:
                siblings.divergence = siblings.divergence or self._divergence(siblings)
                siblings.next_look = time.monotonic() + max(_LOOK, 20 * (time.monotonic() - now))
            return "the ranks do not issue the same collectives" if siblings.divergence else None

    def first_to_fail(self, child: Child) -> bool:
        """Whether no other rank's child of this kind failed before. To be asked when all have ended."""
        with self._lock:
            return _first(self._siblings[child.job.rendezvous]) in (None, child.job.rank)

    def divergence(self, child: Child) -> dict[int, Call | None] | None:
        """What each rank issued where they first did not issue the same; None where that was not what ended them."""
        with self._lock:
            siblings = self._siblings[child.job.rendezvous]
            siblings.divergence = siblings.divergence or self._divergence(siblings)
            return siblings.divergence

    def _divergence(self, siblings: _Siblings) -> dict[int, Call | None] | None:
        """A rank that waits for the others has issued all that it will before they come; who has issued more cannot."""
        if len(siblings.children) < self.size:
            return None
        children = [siblings.children[rank] for rank in range(self.size)]
        met = [_meetings(child) for child in children]
        waiting = [child.ending is None and child.phase == WAITS for child in children]
        found = first_difference([read_issued(Path(child.job.folder), child.name) for child in children])
        if found is None:
            return None
        missing = {rank for rank, call in found.items() if call is None}
        # Read once more: who has meanwhile come to where the others wait was still before it above.
        behind = [_meetings(child) for child in children]
        for rank in missing:
            if not waiting[rank] or any(behind[other] >= met[rank] for other in found.keys() - missing):
                return None
        return found


def _first(siblings: _Siblings) -> int | None:
    """The rank that failed first, by its own word, else by when it was ended or by what it was last seen doing: what
    others say after its end (a connection was closed) is due to it."""

    def when(rank: int) -> float:
        child = siblings.children[rank]
        error: Any = child.result.get("target_error")
        if error is not None:
            return float(error["at"])
        if child.stopped_at is not None:
            return child.stopped_at
        phases = read_phases(Path(child.job.folder), child.name)
        return phases[-1].began if phases and child.ending == "crashed" else siblings.failed[rank]

    return min(siblings.failed, key=when, default=None)


def _meetings(child: Child) -> int:
    """How often it has come to a point where it waits for all ranks."""
    return sum(phase.name == WAITS for phase in read_phases(Path(child.job.folder), child.name))
