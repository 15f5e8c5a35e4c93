"""A series of eager steps: a warm-up, then the steps with which replays are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from graphsafe.capture.child.expected import StepResult
from graphsafe.capture.child.same_inputs import SameInputs, given_values, marks_of, put_and_marked
from graphsafe.capture.child.session import FIRST_SEED, PAIR, REPLAYS, Session, host_values
from graphsafe.capture.child.state import ReachableState, Snapshot, inputs_of, reachable_state


@dataclass
class Series:
    """A warm-up, then one step per replay, then two steps without seeding in between."""

    _session: Session
    _start: Snapshot
    _nudge: int | None = None
    """If not None, parameters and inputs are moved by one unit in the last place, up and down in turn. If 0, the first
    move is up."""
    warm: dict[str, str] = field(default_factory=dict)
    "Digests of the state after the warm-up."
    steps: list[StepResult] = field(default_factory=list)
    born: dict[str, str] = field(default_factory=dict)
    "Path of state that step 1 made or filled -> digest of the value after step 1."
    filled: dict[str, int] = field(default_factory=dict)
    "Function caches that were empty before step 1 -> the number of results that they hold after it."
    settled: dict[str, str] = field(default_factory=dict)
    "Path of state -> digest of the value at the end of the series."
    changed: set[str] = field(default_factory=set)
    stepped: set[str] = field(default_factory=set)
    """The state that a step of the first series bound or wrote. `changed` may also contain state that only the refresh
    wrote."""
    refreshed: set[str] = field(default_factory=set)
    "State and inputs that the refresh wrote."
    dropped: frozenset[str] = frozenset()
    "The gradients that the refresh has dropped before each step so far."
    _like: Series | None = None
    """The first series; None in the first series itself. Later series give their steps the values that the refresh
    wrote in the first one, even those from a clock. Only the first series notes the state that its steps make, because
    noting it reads all state again."""
    _same: SameInputs | None = None

    def run(self, name: str, vary: bool = True) -> None:
        session = self._session
        self.dropped = frozenset((self._like or session).dropped)
        before = reachable_state(session.subject)
        if self._nudge is not None:
            self._move(path for path, tensor in before.tensors.items() if isinstance(tensor, torch.nn.Parameter))
        if session.job.warmup:
            session.seed(FIRST_SEED)
            session.step()
            if self._like is None:
                self._note_first_step(before)
        session.warm_up(done=1)
        session.channel.phase(name)
        self.warm = session.device.digests(reachable_state(session.subject).tensors)
        for k in range(1, REPLAYS + 1):
            self._inputs(k, vary)
            self._step()
        self._inputs(PAIR, vary)
        self._step()
        session.drop_gradients(self.dropped)
        self._step()
        if self._like is None:
            for step in self.steps:
                step.refreshed = {path: one for path, one in step.refreshed.items() if path not in self.stepped}
            reach = reachable_state(session.subject)
            self.settled = {**reach.hosts, **session.device.digests(reach.tensors)}

    def _note_first_step(self, before: ReachableState) -> None:
        """Note the state that step 1 made or filled. This is a separate method because its local variables would
        otherwise keep alive tensors that the target drops."""
        after = reachable_state(self._session.subject)
        self.born = born(self._session, self._start, before, after)
        sizes = {path: size for path, (_, size) in after.caches.items() if size}
        self.filled = {path: size for path, size in sizes.items() if before.caches.get(path, (None, 1))[1] == 0}

    def after_event(self, k: int) -> None:
        self._inputs(k, vary=True)
        self._step()

    def _inputs(self, k: int, vary: bool) -> None:
        if vary and self._like is None and self._session.subject.refresh is not None:
            self.refreshed |= put_and_marked(self._session, k)
        elif vary:
            self._session.put_inputs(k)
            self._give(k)
        else:
            self._session.seed(k)
            self._session.drop_gradients(self.dropped)
        if self._nudge is not None:
            self._move(inputs_of(self._session.subject))

    def _give(self, k: int) -> None:
        """Give the next step the values that the refresh wrote for the same step of the first series."""
        if self._like is not None and len(self.steps) < len(self._like.steps):
            self._same = self._same or SameInputs(self._session, self._like.refreshed)
            self._same.give(k, self._like.steps[len(self.steps)].refreshed)

    def _move(self, paths: Any) -> None:
        tensors = reachable_state(self._session.subject).tensors
        for number, path in enumerate(paths):
            if path in tensors:
                self._session.device.nudge(tensors[path], up=(number + (self._nudge or 0)) % 2 == 0)

    def _step(self) -> None:
        session = self._session
        before = session.offset()
        given = session.device.digests(inputs_of(session.subject))
        if self.dropped:
            self.dropped -= reachable_state(session.subject).tensors.keys()
        like = self._like or self
        refreshed = given_values(session, like.refreshed if self is like else like.refreshed - like.stepped)
        earlier = reachable_state(session.subject) if self._like is None else ReachableState()
        marks, queues = marks_of(earlier.tensors), earlier.queues
        del earlier  # the variable would keep alive tensors that the target drops
        outputs = session.outputs_of(session.path_step())
        after = session.offset()
        reach = reachable_state(session.subject)
        tensors = reach.tensors
        if self._like is None:
            self.stepped |= {
                path for path, mark in marks_of(tensors).items() if mark is None or marks.get(path) != mark
            }
        state = session.device.digests(tensors)
        moved = {path: tensors[path] for path, digest in state.items() if self.warm.get(path) != digest}
        self.changed |= {path for path, digest in state.items() if self._start.digests.get(path) != digest}
        self.steps.append(
            StepResult(
                outputs=host_values(session.device, outputs.tensors),
                hosts=dict(outputs.hosts),
                state=state,
                values=host_values(session.device, moved),
                advance=None if before is None or after is None else after - before,
                filled=[path for path, size in reach.queues.items() if size > queues.get(path, 0)],
                given=given,
                refreshed=refreshed,
            )
        )


def born(session: Session, start: Snapshot, before: ReachableState, after: ReachableState) -> dict[str, str]:
    """Return the state that step 1 made or filled, by path. Before step 1 such state was missing or None, or was a
    tensor whose values were still those of `start`."""
    # A tensor that step 1 stores in an argument's object (as a cached property does) is not an input.
    inputs = inputs_of(session.subject).keys() & start.digests.keys()
    tensors = {path: one for path, one in after.tensors.items() if path not in inputs and not path.endswith(".grad")}
    digests = session.device.digests(tensors)
    born = {path: digest for path, digest in digests.items() if start.digests.get(path) != digest}
    for path, value in after.hosts.items():
        if path not in before.tensors and before.hosts.get(path, "None") == "None" and value != "None":
            born[path] = value
    return born
