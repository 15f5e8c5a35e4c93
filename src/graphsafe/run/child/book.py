"""Records the graphs of this process while the program runs."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection
from dataclasses import replace
from types import FrameType
from typing import Any, TypeVar

import torch

from graphsafe.capture.shared.frames import user_frames, user_frames_now
from graphsafe.failure import in_one_line
from graphsafe.report.model import CallSite
from graphsafe.run.child.failed_captures import FailedCaptures
from graphsafe.run.child.frozen.numbers import Frozen
from graphsafe.run.child.generators import drawn_so_far
from graphsafe.run.child.keys import Key
from graphsafe.run.child.memories import Memories
from graphsafe.run.child.names import (
    graphed_results,
    is_called_by_trees,
    names_in,
    storage_number,
    storage_numbers,
)
from graphsafe.run.child.optimizers import Gradients, SteppedOptimizers
from graphsafe.run.child.outputs import Outputs, returned_and_kept
from graphsafe.run.child.process_groups import has_subgroups
from graphsafe.run.child.records import GraphRecord
from graphsafe.run.child.results.later_replay import Results
from graphsafe.run.child.results.meeting import Meetings
from graphsafe.run.child.results.overwritten import Reads
from graphsafe.run.child.results.previous import Previous
from graphsafe.run.child.results.turns import Turns
from graphsafe.run.child.rotations import Rotation
from graphsafe.run.child.sight import Sight
from graphsafe.run.child.steps import Steps
from graphsafe.run.child.waits import Waits
from graphsafe.run.counters import LAST_RUN, MOST_GRAPHS, Counters, slot_of
from graphsafe.run.facts import Calls, ProcessFacts, Refill, Stage
from graphsafe.run.part import POOL, Options

Result = TypeVar("Result")
_FIRST = 16
"The memory of a graph is checked before each of its first 16 replays."
_SEARCHED = 4
"Names that hold results of earlier replays are searched for before the replays 2 to 5 of a graph."
_MOST_STACKS = 4
"At most this many different call stacks of replays are kept for a graph."
_MOST_REPLAYERS = 16
"At most this many pairs of thread and stream are kept for the replays of a graph."
_PATIENCE = 500
"""On a real GPU, the time until the next check of a graph's memory is at least this many times the duration of the last
check."""

_NO_STEP = "captured steps look like other work, for example because a block calls no function of the program"


class Book:
    def __init__(self, sight: Sight, counters: Counters, tell: Callable[[bool], None], options: Options) -> None:
        """Make an empty record. `tell` is called when the record has changed. Its argument is True if the next replay
        may end the process."""
        self.sight = sight
        self.counters = counters
        self._tell = tell
        self.graphs: list[GraphRecord] = []
        self.failed = FailedCaptures(sight, tell)
        self.steps = Steps(self)
        self.waits = Waits(self._replays, lambda: self._is_wanted("waits")) if options.waits else None
        self._only = options.only
        self._problems: dict[tuple[str, str, str], None] = {}
        "The limits of this run. Each consists of a kind, a subject and a reason."
        self._captures = 0
        self._reads: Reads | None = None
        self._results = Results(is_reading_told=sight.evidence == "predicted")
        self._previous = Previous()
        self._meetings = Meetings()
        self._turns = Turns()
        self._frozen: dict[str, list[Frozen]] = {}
        """File -> the numbers and flags that captured code in this file used. The dict is empty if eager operations are
        not seen."""
        self.memories = Memories(sight, self.replays, tell)
        self._streams: dict[int, str] = {0: "default stream"}

    def begun(self, earlier: GraphRecord | None, handled: int) -> GraphRecord | None:
        """Return the record of a new capture, or None if the capture is left out. `earlier` is the record of the
        previous capture into the same graph object."""
        if earlier is not None:
            earlier.drop()
        if not self._is_wanted("graphs"):
            return None
        self._captures += 1
        if self._captures > MOST_GRAPHS:
            return None
        frames, span = user_frames()
        frame = sys._getframe(1)
        return GraphRecord(
            number=self._captures - 1,
            slot=slot_of(self._captures - 1),
            frames=frames,
            span=span,
            stream=self._stream(),
            thread=threading.current_thread().name,
            device=self.sight.device(),
            begun=time.time_ns(),
            handled=handled,
            stepped=SteppedOptimizers(),
            drawn_before=drawn_so_far(),
            may_take=self.memories.lending.lost(),
            names={} if is_called_by_trees(frame) else names_in(user_frames_now(frame)),
        )

    def _stream(self) -> str:
        return self._streams.setdefault(self.sight.stream(), f"side stream {len(self._streams)}")

    def _is_wanted(self, what: str) -> bool:
        """Return whether the current device is recorded. If it is not, record as a limit that `what` on this device was
        left out."""
        device = self.sight.device()
        if self._only and device not in self._only:
            why = "not recorded: only other devices are watched"
            self._problems["left-out", f"{what} on {device}", why] = None
            return False
        return True

    def ended(self, graph: Any, record: GraphRecord, frame: FrameType) -> None:
        """Read a captured graph. Its tensors get the names of variables in `frame` and in the callers of `frame`."""
        self.graphs.append(record)
        record.seconds = (time.time_ns() - record.begun) / 1e9
        frames = user_frames_now(frame)
        record.key = Key(frames)
        for number in record.key.frozen if self.sight.evidence == "predicted" else ():
            self._frozen.setdefault(number.place[0], []).append(number)
        if record.stepped is not None:
            record.options, record.made = record.stepped.end()
        record.drawn = None if drawn_so_far() == record.drawn_before else record.key.drawn
        record.drawn_before = ()  # free the memory: the states are large
        present = names_in(frames)
        names = {**graphed_results(graph, frame), **record.names, **present}
        before, record.names = record.names, {}
        contents = self.sight.contents(graph, names)
        self.memories.captured(record, contents, names, present)
        results = storage_numbers(contents.outputs)
        record.gradients = Gradients(name for one in results for name in present.get(one, ()))
        record.accesses = {one.number: one.access for one in contents.touches}
        record.rotation = Rotation(before, present, record.accesses)
        record.key.sizes = sorted(use.memory.bytes for use in record.uses)
        record.outputs = Outputs(contents.outputs)
        for earlier, storage in contents.overwriters:
            for one in (one for one in self.graphs if one.graph is not None and one.graph() is earlier):
                one.overwrites.append((record, storage))
                self._reads = self._reads or Reads(self.replays, lambda: self._tell(False))
        record.contents = replace(contents, touches=(), outputs=(), overwriters=(), borrowed=())
        record.subgroups = contents.collectives and has_subgroups()
        record.compare(self.graphs[:-1])
        record.keeps_pool = contents.nodes == {} and is_called_by_trees(frame)
        record.graph = weakref.ref(graph, lambda _: record.drop())
        self.steps.leave(contents.many_shapes)
        self.steps.captured(contents.step, record.number)
        if contents.problem:
            self._problems["unread-graph", "a graph's nodes", contents.problem] = None
        self._tell(len(self.graphs) == 1)  # otherwise a process that ends now would seem to have captured nothing

    def failing(
        self, graph: Any, record: GraphRecord | None, error: BaseException, frame: FrameType, stage: Stage
    ) -> None:
        """Record a failed capture. `graph` and `record` are None if the error was raised before the capture began."""
        if record is not None and record.stepped is not None:
            record.stepped.end()
        if self._is_wanted("graphs"):
            self.failed.add(graph, record, error, frame, stage)

    def replaying(self, record: GraphRecord) -> None:
        """Check the memory that a graph uses, before a replay. On a real GPU, the memory is checked before each of the
        first `_FIRST` replays. Later checks are so rare that they take little time."""
        begun = time.perf_counter()
        frames, sites = self._running()
        is_early = record.looks < _FIRST
        self.replayed_by(record)
        self.memories.look(record)
        if self._reads is not None and record.overwrites:
            self._reads.replaying(record, frames, sites)
        found = []
        if is_early or self.sight.evidence == "predicted":
            found.append(self._overwriting(record, frames, sites))
        graph = None if record.graph is None else record.graph()
        if graph is not None:
            self.sight.replaying(graph)
            found.append(record.draws.replaying(graph, frames, sites))
        cells = self.counters.cells
        found.append(record.rotation.replaying(cells[cells[LAST_RUN]] == record.slot))
        found.append(self._collecting(record, frames, sites))
        found.append(self._is_stale(record, frames))
        if any(found):
            self._tell(False)
        if is_early and len(record.stacks) < _MOST_STACKS:
            record.stacks.add(sites)
        record.looks += 1
        if self.sight.evidence == "measured" and record.looks > _FIRST:
            ended = time.perf_counter()
            record.next_look = ended + _PATIENCE * (ended - begun)

    def _collecting(self, record: GraphRecord, frames: list[FrameType], sites: Calls) -> bool:
        """Look for results of earlier replays that the program keeps although this replay overwrites them.

        Each replay may also update results in memory outside the pool. On a GPU, such memory is left out if kernels use
        it, because a kernel's arguments do not say which memory the kernel writes.
        """
        if record.collected:
            return False
        updates = ("write", "both") if self.sight.evidence == "predicted" else ("write",)
        updated = [use.memory for use in record.uses if use.access in updates and use.certain]
        storages = frozenset(memory.number for memory in updated if memory.is_there)
        kept = (returned_and_kept(storages, frames, record.looks) if storages else None) or record.outputs.look(frames)
        if isinstance(kept, CallSite):
            record.collected = (kept,)
        elif kept:
            record.collected, record.is_keeper_known = sites, False
        return bool(record.collected)

    def replayed_by(self, record: GraphRecord) -> None:
        """Record the thread and the stream of a replay. Call it when memory is checked, and when the thread differs
        from the previous replay's thread."""
        record.replayer = threading.get_ident()
        one = (threading.current_thread().name, self._stream())
        if one not in record.replayers and len(record.replayers) < _MOST_REPLAYERS:
            record.replayers[one] = None
            self._tell(False)

    def changing_thread(self, record: GraphRecord) -> None:
        """Record that a thread is about to replay a graph which another thread replayed last."""
        self.replayed_by(record)
        if self._turns.is_wanted(record) and self._turns.replaying(record, *self._running()):
            self._tell(False)

    def stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """Look, before an optimizer's eager step, for gradients that a graph writes but the optimizer does not find."""
        for record in self.graphs:
            if record.dropped is None and record.gradients.stepping(optimizer, self.replays(record.number)):
                self._tell(False)

    def instantiated(self, record: GraphRecord) -> None:
        """Count an instantiation of a graph. If the graph was replayed before, its first instantiation is counted
        too."""
        record.instantiations += 1 if record.instantiations or not self.replays(record.number) else 2
        self._tell(False)

    def _overwriting(self, record: GraphRecord, frames: list[FrameType], sites: Calls) -> bool:
        """Look for earlier results that this replay is about to overwrite and that the program reads later."""
        found = self._results.replaying(record, frames, sites)
        found |= self._turns.replaying(record, frames, sites)
        if not found and record.overwritten is None:
            found = self._meetings.replaying(record, frames, sites)
        is_early = 0 < record.looks <= _SEARCHED and record.overwritten is None
        if is_early and record.outputs.is_held_by_more():
            found |= self._previous.replaying(record, frames, sites)
        return found

    def checking_values(self, record: GraphRecord) -> None:
        """Compare, before a replay, the values that the graph froze with the program's present values."""
        has_values = record.options or record.key.has_values
        if has_values and self._is_stale(record, user_frames_now(sys._getframe(1))):
            self._tell(False)

    def _running(self) -> tuple[list[FrameType], Calls]:
        return user_frames_now(sys._getframe(1)), user_frames()[0]

    def replays(self, graph: int) -> int:
        return int(self.counters.cells[slot_of(graph)])

    def stacks(self, graph: int) -> Collection[Calls]:
        return [stack for record in list(self.graphs) if record.number == graph for stack in list(record.stacks)]

    def comparing(self, record: GraphRecord | None) -> None:
        """Record that the running line compares a graph's result with itself."""
        if record is not None and not record.compared and self.replays(record.number) > 1:
            record.compared = user_frames()[0]
            self._tell(False)

    def reading(self, storages: Callable[[], Collection[int]]) -> None:
        """Record that the running line reads storages eagerly. `storages` is called only if a read matters."""
        frames = user_frames_now(sys._getframe(1)) if self._results.is_watching or self._frozen else []
        if self._results.is_watching and self._results.read(storages(), frames):
            self._tell(False)
        for number in self._frozen.get(frames[0].f_code.co_filename, ()) if frames else ():
            number.ran(frames[0].f_lineno)

    def safely(self, do: Callable[..., Result], *args: Any) -> Result | None:
        """Run a hook of graphsafe and return its result. Tensor subclasses of the program do not see its operations.
        An error in the hook is recorded as a limit, and None is returned."""
        try:
            with torch._C.DisableTorchFunction():
                return do(*args)
        except Exception as error:
            self._problems["internal", "the watch of this process", in_one_line(error)] = None
            return None

    def registering(self, module: torch.nn.Module, name: str, _: Any) -> None:
        """Record that a module is about to replace a parameter or buffer by another one with the same name."""
        old = module._parameters.get(name, module._buffers.get(name))
        number = storage_number(old) if old is not None and self.memories else None
        if number is not None:
            self.memories.leaving(number)

    def look_at_all(self) -> None:
        """Record the captures that have not ended, and update the status of the memory that existing graphs use."""
        self.failed.look()
        with torch._C.DisableTorchFunction():
            for record in list(self.graphs):
                if record.dropped is None:
                    self.memories.look(record)

    def facts(self) -> ProcessFacts:
        """Return the facts, except those about the end of the process."""
        limits = [*self.sight.limits(), *self._problems]
        if self._reads is not None and self._reads.problem is not None:
            limits.append(("unseen", "reads of results that another graph has overwritten", self._reads.problem))
        unseen = self._unseen_steps()
        if unseen is not None:
            limits.append(("unseen", "steps that run without a graph", unseen))
        more = self._captures - MOST_GRAPHS
        if more > 0:
            limits.append(
                ("too-many-graphs", f"{more} captures", f"the ledger of a process has room for {MOST_GRAPHS}")
            )
        return ProcessFacts(
            graphs=tuple(record.facts() for record in list(self.graphs)),
            failed=tuple(self.failed.records),
            steps=self.steps.facts() if unseen is None else None,
            waits=None if self.waits is None else self.waits.facts(),
            refills=tuple(self._refill(*found) for found in self.sight.refills()),
            device=self.sight.facts(),
            by_line=self.safely(self.sight.by_line),
            limits=tuple(limits),
            evidence=self.sight.evidence,
        )

    def forget(self, counters: Counters) -> None:
        """Start again in a forked process, without the graphs of the parent process."""
        self.counters = counters
        self.graphs = []
        self.failed.forget()
        self.steps.forget()
        if self.waits is not None:
            self.waits.forget()

    def end(self) -> None:
        if self._reads is not None:
            self._reads.close()

    def _replays(self) -> int:
        return sum(self.replays(record.number) for record in list(self.graphs))

    def _unseen_steps(self) -> str | None:
        """Return why steps without a graph cannot be seen. Return None if they can be seen or if there is no graph."""
        if all(record.contents.nodes == {} for record in list(self.graphs)):
            return None
        return self.sight.unseen_steps() or (None if self.steps.names else _NO_STEP)

    def _is_stale(self, record: GraphRecord, frames: list[FrameType]) -> bool:
        """Return whether this is the first replay at which the program's values differ from the graph's values."""
        if record.stale is not None:
            return False
        options = (changed() for changed in record.options)
        others = (one.key for one in self.graphs if one is not record and one.frames == record.frames)
        found = record.key.differs(frames, others) or next(filter(None, options), None)
        if found is not None:
            record.stale = replace(found, at=found.at or record.key.chosen_at(frames), frames=user_frames()[0])
        return found is not None

    def _refill(self, write: Calls, replay: Calls, storage: int, by_host: bool) -> Refill:
        unnamed = POOL if -MOST_GRAPHS <= storage < 0 else None
        what = unnamed if storage < 0 else self.memories.text(storage)
        return Refill(write, replay, what, is_pinned=storage < 0, by_host=by_host)
