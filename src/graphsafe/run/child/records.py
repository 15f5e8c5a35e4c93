"""The data that are recorded about graphs and their uses of memory while the program runs."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphsafe.report.ledger.model import Access
from graphsafe.report.reading import members
from graphsafe.run.child.generators import Draws
from graphsafe.run.child.keys import Key
from graphsafe.run.child.names import Name
from graphsafe.run.child.optimizers import Gradients, SteppedOptimizers
from graphsafe.run.child.outputs import Outputs
from graphsafe.run.child.outside import Memory
from graphsafe.run.child.rotations import Rotation
from graphsafe.run.child.sight import Contents, LetGo
from graphsafe.run.facts import Calls, CaptureFacts, Changed, GraphFacts, LentUse, OutsideUse, Rotated


@dataclass(eq=False, slots=True)
class Use:
    """One graph's use of one piece of memory outside its pool."""

    memory: Memory
    access: Access
    certain: bool
    let_go: LetGo | None = None
    "The tensor in this memory and the names under which objects hold it, if these names are followed."
    lost_after: int | None = None
    "The number of replays before the memory was lost."

    def facts(self) -> OutsideUse:
        memory, kept = self.memory, self.let_go
        lost = memory.status != "alive"
        instead = memory.instead if lost else None if kept is None else kept.instead
        is_kept = not lost and kept is not None and kept.is_lost
        return OutsideUse(
            what=memory.text,
            shape=memory.shape,
            bytes=memory.bytes,
            made=memory.made,
            access=self.access,
            certain=self.certain and not is_kept,
            status="rebound" if is_kept else memory.status,
            frames=memory.frames if lost else (),
            heir=memory.heir if lost else None,
            instead=instead,
            lost_after=self.lost_after if lost else kept.lost_after if kept is not None and is_kept else None,
        )


@dataclass(eq=False, slots=True)
class Lent:
    """A tensor in a pool that a graph reads and that another graph of the pool has made."""

    use: Use
    pool: object
    makers: list[int]
    "The numbers of other graphs that use the tensor while it exists. A replay of one of them restores the tensor."
    takers: list[int] = field(default_factory=list)
    "The numbers of graphs that use the tensor's memory and were captured after the tensor had been freed."


@dataclass(eq=False, kw_only=True, slots=True)
class GraphRecord(CaptureFacts):
    slot: int
    "The index of the first of the graph's counters."
    handled: int
    "The `id` of the exception that was being handled when the capture began."
    contents: Contents = field(default_factory=Contents)
    "The contents of the graph, without the objects of class `Touch`, which would keep storages alive."
    uses: list[Use] = field(default_factory=list)
    accesses: Mapping[int, Access] = field(default_factory=dict)
    "Number of a storage outside the pool that the graph uses -> how it uses the storage."
    lent: list[Lent] = field(default_factory=list)
    may_take: list[Lent] = field(default_factory=list)
    "Tensors of other graphs that had been lost when the capture began. It is empty after the capture."
    outputs: Outputs = field(default_factory=Outputs)
    overwrites: list[tuple[GraphRecord, int]] = field(default_factory=list)
    "Graphs whose outputs this graph's replays overwrite, each with the number of the output's storage."
    key: Key = field(default_factory=Key)
    stepped: SteppedOptimizers | None = None
    "Records the steps of optimizers while the capture runs."
    names: dict[int, list[Name]] = field(default_factory=dict)
    "Storage number -> the names that its tensors had when the capture began. It is empty after the capture."
    options: list[Callable[[], Changed | None]] = field(default_factory=list)
    """Functions that check values frozen by the captured step of an optimizer. Each returns a value that is different
    now, or None."""
    draws: Draws = field(default_factory=Draws)
    gradients: Gradients = field(default_factory=Gradients)
    rotation: Rotation = field(default_factory=Rotation)
    drawn_before: tuple[Any, ...] = ()
    "The states of the host's random generators when the capture began. It is empty after the capture."
    graph: weakref.ref[Any] | None = None
    suspect: bool = False
    "Whether memory that the graph uses may have been lost."
    replayer: int = 0
    "The id of the thread of the last replay."
    replayers: dict[tuple[str, str], None] = field(default_factory=dict)
    looks: int = 0
    "The number of checks of the graph's memory so far."
    stacks: set[Calls] = field(default_factory=set)
    next_look: float = 0.0
    "The time of the next check of the graph's memory."

    def drop(self) -> None:
        if self.dropped is None:
            self.dropped = time.time_ns()

    def facts(self) -> GraphFacts:
        seen, names, when = self.contents, self.rotation.names, self.rotation.when
        line = self.key.rebinding(names)
        return GraphFacts(
            **members(self, CaptureFacts),
            nodes=None if seen.nodes is None else dict(seen.nodes),
            pool_bytes=seen.pool_bytes,
            collectives=seen.collectives,
            outside=(*(use.facts() for use in self.uses), *(seen.casts.facts() if seen.casts is not None else ())),
            key=self.key.texts(),
            decided=self.key.decided,
            let_go=self.gradients.let_go,
            skipped=self.gradients.skipped,
            rotated=Rotated(tuple(name.text for name in names), line, when) if when else None,
            generators=self.draws.facts(self.key.seeded),
            draws_from=None if self.draws.names is None else tuple(self.draws.names),
            replayed_by=tuple(self.replayers),
            passed_over=seen.passed_over(),
            races=seen.races,
            lent=tuple(
                LentUse(one.use.facts(), tuple(one.makers), tuple(one.takers)) for one in self.lent if one.takers
            ),
        )

    def repeats(self, earlier: GraphRecord) -> bool:
        """Return whether both graphs do the same work, except that one input is another tensor of equal size.

        This input must be in a variable of a function. Otherwise, the graphs of two equal layers would match too,
        because they differ only in their weights.
        """
        ours, theirs = ({use.memory: use for use in one.uses} for one in (self, earlier))
        new = [use for memory, use in ours.items() if memory not in theirs]
        old = [use for memory, use in theirs.items() if memory not in ours]
        if not self._does_as(earlier) or not len(new) == len(old) == 1 < len(ours):
            return False
        (one,), (other,) = new, old
        same = (one.memory.bytes, one.access) == (other.memory.bytes, other.access)
        return same and any(name.root is None and not name.way for name in one.memory.names)

    def compare(self, earlier: Sequence[GraphRecord]) -> None:
        """Compare the graph with earlier graphs of the same line, and record which of them do the same work."""
        same = [one for one in reversed(earlier) if one.frames == self.frames]
        self.is_again = bool(same) and self.repeats(same[0])
        self.copy_of = next((one.number for one in same if self.equals(one)), None)

    def equals(self, earlier: GraphRecord) -> bool:
        """Return whether both graphs do the same work with the same memory and the same values."""
        ours, theirs = ({use.memory: use.access for use in one.uses} for one in (self, earlier))
        return self._does_as(earlier) and ours == theirs and self.key.equals(earlier.key)

    def _does_as(self, other: GraphRecord) -> bool:
        return bool(self.contents.nodes) and self.contents.nodes == other.contents.nodes
