"""The data of one graph, one failed capture and one wait, while the program runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from graphsafe.report.ledger.model import Access
from graphsafe.report.model import CallSite, Span
from graphsafe.run.child.generators import Draws
from graphsafe.run.child.keys import Key, Stale
from graphsafe.run.child.names import Place
from graphsafe.run.child.optimizer_options import OptimizerOption, SteppedOptimizers
from graphsafe.run.child.outside import Memory
from graphsafe.run.child.results.outputs import Outputs
from graphsafe.run.part import Facts, sites

if TYPE_CHECKING:
    import weakref

    import torch

    from graphsafe.capture.answers.events import StepEvent
    from graphsafe.run.child.sight import Around
    from graphsafe.run.child.sim.let_go import LetGo


@dataclass(eq=False, slots=True)
class Use:
    """One graph's use of memory outside its pool."""

    memory: Memory
    access: Access
    certain: bool
    let_go: LetGo | None = None
    "The fate of the attributes that held it, if it is known."
    lost_after: int | None = None
    "Number of replays before the memory was lost."

    def facts(self) -> Facts:
        memory, kept = self.memory, self.let_go
        lost = memory.status != "alive"
        is_kept = not lost and kept is not None and kept.is_lost
        return {
            "what": memory.text,
            "bytes": memory.bytes,
            "made": None if memory.made is None else asdict(memory.made),
            "access": self.access,
            "certain": self.certain and not is_kept,
            "status": "rebound" if is_kept else memory.status,
            "frames": sites(memory.frames) if lost else [],
            "lost_after": self.lost_after if lost else kept.lost_after if kept is not None and is_kept else None,
        }


@dataclass(eq=False, slots=True)
class GraphRecord:
    number: int
    "The number of the capture in the process, from 0."
    slot: int
    "The first of the graph's cells in the counters."
    frames: tuple[CallSite, ...]
    span: Span | None
    stream: str
    thread: str
    device: str
    begun: int
    "The time of the capture, in nanoseconds since 1970."
    handled: int
    "The `id` of the exception that was being handled when the capture began."
    seconds: float = 0.0
    nodes: Mapping[str, int] | None = None
    "The nodes by kind; None until they are read, or if reading failed."
    pool_bytes: int | None = None
    uses: list[Use] = field(default_factory=list)
    outputs: Outputs = field(default_factory=Outputs)
    overwrites: list[tuple[GraphRecord, int]] = field(default_factory=list)
    "Graphs whose outputs this graph's replays overwrite, each with the number of the output's storage."
    fills: Sequence[Place] = ()
    "Memory outside its pool that its replays write and do not read, as far as it is known."
    owns: Callable[[torch.Tensor], bool] = lambda _: False
    "Returns whether a tensor lies in memory of its pool that its replays use, as far as that is known."
    key: Key = field(default_factory=Key)
    stepped: SteppedOptimizers | None = None
    "Listens for steps of optimizers while the capture runs."
    options: Sequence[OptimizerOption] = ()
    "Numbers of optimizers whose step was captured."
    passed_over: Callable[[], int] = int
    "Returns how often an input of its size was given to another graph."
    pinned: Around | None = None
    "Watches the pinned memory from which the graph copies."
    draws: Draws = field(default_factory=Draws)
    stale: Stale | None = None
    "The first replay for which the program had another value than the graph."
    collectives: bool = False
    "Whether the graph contains a collective."
    subgroups: bool = False
    "Whether the process had groups of only some ranks at the capture."
    keeps_pool: bool = False
    "Whether Inductor captured the graph only to keep a pool alive: it is empty and never replayed."
    graph: weakref.ref[Any] | None = None
    dropped: int | None = None
    "The time (ns) at which the program dropped the graph, or captured into it again."
    suspect: bool = False
    "Whether memory that the graph uses may have been lost."
    looks: int = 0
    "Number of checks of the graph's memory so far."
    is_again: bool = False
    "Whether the previous capture of this line differs only in one tensor outside the pool."
    copy_of: int | None = None
    "The number of the last earlier graph of this line that does the same work, with the same memory."
    stacks: set[tuple[CallSite, ...]] = field(default_factory=set)
    "Some call stacks of the graph's replays."
    next_look: float = 0.0
    "The time of the next check of the graph's memory."

    def drop(self) -> None:
        if self.dropped is None:
            self.dropped = time.time_ns()

    def facts(self) -> Facts:
        return {
            "number": self.number,
            "frames": sites(self.frames),
            "span": self.span,
            "stream": self.stream,
            "thread": self.thread,
            "device": self.device,
            "begun": self.begun,
            "seconds": self.seconds,
            "nodes": None if self.nodes is None else dict(self.nodes),
            "pool_bytes": self.pool_bytes,
            "outside": [use.facts() for use in self.uses],
            "held_outputs": self.outputs.facts(),
            "stale": None if self.stale is None else self._stale_facts(self.stale),
            "key": self.key.texts(),
            "generators": self.draws.facts(self.key.seeded),
            "passed_over": self.passed_over(),
            "collectives": self.collectives,
            "subgroups": self.subgroups,
            "keeps_pool": self.keeps_pool,
            "is_again": self.is_again,
            "copy_of": self.copy_of,
            "dropped": self.dropped,
        }

    def repeats(self, earlier: GraphRecord) -> bool:
        """Return whether both graphs do the same work except that one input tensor, of equal size, is another.

        The tensor must be a function's variable: graphs of two layers also differ only in weights.
        """
        ours, theirs = ({use.memory: use for use in one.uses} for one in (self, earlier))
        new = [use for memory, use in ours.items() if memory not in theirs]
        old = [use for memory, use in theirs.items() if memory not in ours]
        if not self.nodes or self.nodes != earlier.nodes or not len(new) == len(old) == 1 < len(ours):
            return False
        (one,), (other,) = new, old
        same = (one.memory.bytes, one.access) == (other.memory.bytes, other.access)
        return same and any(name.root is None and not name.way for name in one.memory.names)

    def compare(self, earlier: Sequence[GraphRecord]) -> None:
        """Note whether earlier graphs of this line do the same."""
        same = [one for one in reversed(earlier) if one.frames == self.frames]
        self.is_again = bool(same) and self.repeats(same[0])
        self.copy_of = next((one.number for one in same if self.equals(one)), None)

    def equals(self, earlier: GraphRecord) -> bool:
        """Return whether both graphs do the same work with the same memory and the same values."""
        ours, theirs = ({use.memory: use.access for use in one.uses} for one in (self, earlier))
        return bool(self.nodes) and self.nodes == earlier.nodes and ours == theirs and self.key.equals(earlier.key)

    def _stale_facts(self, stale: Stale) -> Facts:
        changed = stale.changed
        return {
            "name": changed.name,
            "captured": changed.captured,
            "now": changed.now,
            "at": None if changed.at is None else asdict(changed.at),
            "frames": sites(stale.frames),
        }


@dataclass(eq=False, slots=True)
class FailedRecord:
    frames: tuple[CallSite, ...]
    span: Span | None
    device: str
    error: str
    inner: tuple[CallSite, ...]
    "The calls that led to the first error."
    generator: str | None
    "The error of drawing a random number after the failure, or None."
    guilty: StepEvent | None
    "The event that broke the capture, if it is known."
    has_begun: bool
    "False if `make_graphed_callables` failed before a capture."
    swallowed_by: CallSite | None = None

    def facts(self) -> Facts:
        return {
            "frames": sites(self.frames),
            "span": self.span,
            "device": self.device,
            "error": self.error,
            "inner": sites(self.inner),
            "generator": self.generator,
            "guilty": None if self.guilty is None else asdict(self.guilty),
            "has_begun": self.has_begun,
            "swallowed_by": None if self.swallowed_by is None else asdict(self.swallowed_by),
        }
