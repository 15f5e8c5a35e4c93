"""Many eager rounds of a program. `rounds.py` compares replays with these rounds. A round is a call of the refresh,
then a step or a replay.

A refresh may act differently for the first time in the tenth round: it loads new weights, for example, or uses another
page of a cache. The round in which this happens may depend on host state that the step's Python code changes, and
replays do not change that state. So replays are compared with eager steps in many more rounds than a mere test of new
inputs would need. The eager rounds and the replays run in two children. Before the rounds, both children do exactly the
same.

In the first rounds, state that steps change on the device is put back before each round, so that positions do not run
out of their buffers. Integers that the refresh changes are put back too; other values stay as the refresh leaves them.
Before some of these rounds an event of the target happens, and each event happens twice: the second time, the event or
a later refresh may act differently. In a few further rounds the device is busy while the host goes on. These rounds
expose a refresh that should wait for the step and does not.

If time runs out before the last of these rounds, the remaining rounds run only their refreshes, because most refreshes
take far less time than a step. The last two rounds have a step again.

If eager steps repeat bit for bit, the last rounds are continued rounds: each starts from the state that the round
before left, as in a program. A refresh may then read counts that steps keep on the device. The continued rounds stop
when an eager step fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from graphsafe.capture.child.copied_state import DeviceStateCopy
from graphsafe.capture.child.expected import Expected, StepResult
from graphsafe.capture.child.probes.capture import given_reference
from graphsafe.capture.child.probes.events import fire
from graphsafe.capture.child.probes.round_paths import (
    PathWatch,
    Taken,
    can_compare_continued,
    has_compiled,
    instruments_change,
)
from graphsafe.capture.child.same_inputs import SameInputs, given_values
from graphsafe.capture.child.session import PAIR, REPLAYS, Session, host_values, opened, save_values
from graphsafe.capture.child.state import generators_of, inputs_of, reachable_state, smallest
from graphsafe.capture.child.state.tensors import has_address
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.child.time_left import TimeLeft, power_of_two
from graphsafe.capture.shared.job import Channel, Job

ROUNDS = "rounds.pt"
"The file with the results of the eager rounds."
GOING_ON = "going-on.pt"
"The file with the results of the continued eager rounds."
MOST_ROUNDS = 256
"The largest number of rounds before which state is put back."
MOST_GOING_ON = 256
_FIRST_EVENT = 64
"The round before which the first event happens, counted from 0."
_EVENT_GAP = 20
"Number of rounds from one event to the next."
_EACH_EVENT = 2
"Each event happens this many times."
LAST_ROUNDS = 2
"""The number of complete rounds (with a step) after skipped rounds. The first shows what the skipped refreshes have
changed. Before the second, freed memory is overwritten."""
LATE_INPUTS = range(PAIR + 1 + MOST_ROUNDS, PAIR + 7 + MOST_ROUNDS)
"Numbers of the inputs for rounds that let the device fall behind the host."
INPUTS_GOING_ON = range(LATE_INPUTS.stop, LATE_INPUTS.stop + MOST_GOING_ON)
_CPU_SECONDS = {"predicted": 2.0, "measured": 6.0}
"""The device's kind of evidence -> the number of seconds of CPU time after which no further round starts. A GPU gets
more time, because a refresh may act differently only in later rounds, and because children that share the GPU wait for
each other. The same time is allowed again for refreshes without a step."""
_WATCHED = 1.5
"Watched rounds may use this many times as much CPU time."
_SECONDS = 20.0
"No further round starts after this many seconds in total."
_MOST_BYTES = 256 * 2**20
"The largest number of bytes of outputs and state that are saved for all rounds together."
_STATE_BYTES = 2**20
"For each round, at most this many bytes of state are saved as values. The smallest tensors are saved first."
_FEW = 16
"If a round fails before this many rounds have run, the rounds begin again, and no state is put back between them."
_HASH_EVERY = 16
"""In every round whose number is a multiple of this number, larger tensors that the steps write are compared by their
hashes. If a round takes one of the other paths that further steps took, these hashes are always compared."""


@dataclass
class Rounds:
    """The results of the eager rounds."""

    put_back: Sequence[str]
    """The state that steps change in place, and the integers that the refresh changes. Both are put back before each
    round."""
    steps_write: bool = True
    "Whether steps change state or inputs in place on the device. If so, state does not depend on the refresh alone."
    is_faithful: bool = False
    """Whether each round sees everything that earlier refreshes wrote. This is so if putting state back undoes none of
    it."""
    steps: Sequence[StepResult] = ()
    skipped: int = 0
    "The number of later rounds that ran only their refresh, because no time was left for their steps."
    last: Sequence[StepResult] = ()
    "The rounds after the skipped rounds, at most `LAST_ROUNDS`."
    is_whole: bool = False
    "Whether every round ran and succeeded. Another child can then reach the state after the rounds."
    late: Sequence[StepResult] = ()
    "The rounds in which the device fell behind the host. These rounds have only outputs."


def late_rounds(
    session: Session, kept: DeviceStateCopy, put: Callable[[int], None], run: Callable[[], Any]
) -> list[StepResult]:
    """Run rounds in which the device falls behind the host. In half of these rounds the device is busy during the
    refresh. In the other half it is busy only during the step. graphsafe does not wait for the device: the device
    copies the results in order, and puts its state back before each round. So only the delay can cause a difference.
    `put` sets the inputs. Return nothing if the device cannot run behind the host."""
    found = []
    for number in LATE_INPUTS:
        kept.put_back(in_order=True)
        meets_refresh = number % 2 == 0
        if meets_refresh and not session.device.keep_busy():
            return []
        put(number)
        if not meets_refresh and not session.device.keep_busy():
            return []
        outputs = session.outputs_of(run()).tensors
        found.append({path: session.device.copied(one) for path, one in outputs.items()})
    session.device.synchronize()
    return [StepResult(host_values(session.device, one), {}) for one in found]


def event_since(session: Session, at: int) -> str | None:
    """Return the event that happened last before round `at` (counted from 0). Return None before the first event, or if
    the last event happened `_EVENT_GAP` or more rounds ago."""
    turn, events = (at - _FIRST_EVENT) // _EVENT_GAP, [*session.subject.events]
    return events[turn % len(events)] if 0 <= turn < _EACH_EVENT * len(events) else None


def inputs_of_rounds(session: Session, kept: DeviceStateCopy) -> Iterator[int]:
    """For each round, put the device's state back, run the event that is due, and yield the index of the round's
    inputs. Host state, and whatever else the refresh changes, is not put back. Raises TargetError if an event fails."""
    for at in range(MOST_ROUNDS):
        kept.put_back()
        event = event_since(session, at)
        if event is not None and (at - _FIRST_EVENT) % _EVENT_GAP == 0:
            fire(session, at, event)
        yield PAIR + 1 + at


def inputs_of_continued_rounds(kept: DeviceStateCopy) -> Iterator[int]:
    """Yield the index of the inputs of each continued round. The state is put back only before the first of these
    rounds."""
    kept.put_back()
    yield from INPUTS_GOING_ON


@dataclass
class _Eager:
    """The eager child's steps."""

    session: Session
    reference: Expected
    paths: Set[str]
    "The tensors that change after the warm-up."
    watch: PathWatch | None
    "Notes the path of each round; None if paths are not needed, or if watching changes the results of the step."
    written: set[str]
    "State and inputs that steps have written."
    is_failed: bool = False
    "Whether a round has failed."

    @property
    def _left_alone(self) -> Set[str]:
        """The tensors that the refresh writes and that steps do not write."""
        return self.reference.refreshed - self.written

    def late(self, kept: DeviceStateCopy) -> list[StepResult]:
        """Run the rounds in which the device runs behind the host. Return their results."""
        session, given = self.session, list[dict[str, torch.Tensor]]()

        def put(number: int) -> None:
            session.put_inputs(number)
            tensors = reachable_state(session.subject).tensors
            paths = [path for path in small if session.device.is_on_device(tensors[path])]
            given.append({path: session.device.copied(tensors[path]) for path in paths})

        small = given_values(session, self._left_alone).keys()
        found = late_rounds(session, kept, put, lambda: session.path_step(wait=False))
        values = [host_values(session.device, one) for one in given]
        return [replace(one, refreshed=value) for one, value in zip(found, values, strict=False)]

    def step(self, k: int) -> None:
        """Before the rounds, run the step that corresponds to replay `k`."""
        before = self._digests()
        if self.watch is None or k > 1:
            self.session.path_step()
        else:
            with self.watch.watched():
                outputs = self.session.path_step()
            if instruments_change(self.session, self.reference, self.session.results_of(outputs)):
                self.watch = None
        self.written |= {path for path, digest in self._digests().items() if before.get(path) != digest}

    @property
    def _cpu_seconds(self) -> float:
        is_watched = self.watch is not None and self.watch.is_needed
        return _CPU_SECONDS[self.session.device.evidence] * (_WATCHED if is_watched else 1.0)

    def _digests(self) -> dict[str, str]:
        tensors = reachable_state(self.session.subject).tensors
        return self.session.device.digests({path: tensors[path] for path in self.paths & tensors.keys()})

    def rounds(
        self, inputs: Iterator[int], refresh: Callable[[int], Sequence[str] | None], watches: bool
    ) -> tuple[list[StepResult], bool]:
        """Run rounds until one fails, or until time or memory runs out. If time or memory runs out, the number of
        rounds is cut to a power of two. Return the rounds, and whether all rounds ran, succeeded and were kept."""
        session, steps = self.session, list[StepResult]()
        time_left, held = TimeLeft(self._cpu_seconds, _SECONDS), 0
        try:
            for number in inputs:
                step = self.round(number, refresh, watches)
                if session.ranks.any(step is None) or step is None:
                    self.is_failed = True
                    return steps, False
                steps.append(step)
                held += sum(value.nbytes for values in (step.outputs, step.values) for value in values.values())
                if session.ranks.any(time_left.is_over(len(steps), held / _MOST_BYTES)):
                    kept = power_of_two(len(steps))
                    return steps[:kept], kept == len(steps)
        except TargetError:  # an event fails
            session.ranks.any(True)
            return steps, False
        return steps, True

    def skipping(self, inputs: Iterator[int], watches: bool) -> tuple[int, list[StepResult]]:
        """Run only the refreshes of the remaining rounds, and then the last, complete rounds. Return the number of
        rounds without a step, and the complete rounds that succeeded."""
        session, skipped, steps = self.session, 0, list[StepResult]()
        time_left = TimeLeft(self._cpu_seconds, _SECONDS)
        try:
            for number in inputs:
                if not (steps or number >= LATE_INPUTS.start - LAST_ROUNDS or time_left.is_over(skipped)):
                    session.put_inputs(number)
                    skipped += 1
                    continue
                step = self.round(number, session.put_inputs, watches)
                steps += [] if step is None else [step]
                if step is None or len(steps) == LAST_ROUNDS:
                    break
        except TargetError:
            pass
        return skipped, steps

    def round(self, number: int, refresh: Callable[[int], Sequence[str] | None], watches: bool) -> StepResult | None:
        """Run one round. Return None if the round fails. A failure proves no fault, because a real program might have
        reset a position earlier."""
        session, watch = self.session, self.watch if watches else None
        try:
            released = refresh(number)
            refreshed = given_values(session, self._left_alone)
            with nullcontext() if watch is None else watch.watched():
                outputs = session.outputs_of(session.path_step())
        except TargetError:
            return None
        tensors = reachable_state(session.subject).tensors
        taken = Taken() if watch is None else watch.taken(outputs.tensors, tensors)
        self.written |= taken.written
        small = self._small(tensors)
        large = tensors.keys() & self.written - small.keys() if taken.is_other or number % _HASH_EVERY == 0 else ()
        values = {path: one for path, one in host_values(session.device, small).items() if not has_address(one)}
        hashed = {path: tensors[path] for path in sorted(large) if not has_address(tensors[path])}
        digests = session.device.digests({**{path: small[path] for path in values}, **hashed})
        results = host_values(session.device, outputs.tensors)
        return StepResult(
            results,
            dict(outputs.hosts),
            digests,
            values,
            refreshed=refreshed,
            released=released or (),
            hashed=sorted(hashed),
            path=taken.path,
            is_shown=taken.is_shown({**values, **results}, hashed),
        )

    def _small(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the small tensors to compare: state, and inputs that steps have written."""
        left_alone = inputs_of(self.session.subject).keys() - self.written
        small = smallest(dict(sorted(tensors.items())), _STATE_BYTES)
        return {path: tensor for path, tensor in small.items() if path not in left_alone}


def run(job: Job, channel: Channel) -> None:
    rounds = _run(job, channel)
    if rounds is not None:
        # The refresh may have failed because graphsafe put back counts that steps keep. A program puts nothing back.
        # The target is built again: putting the old objects back would mean that graphsafe keeps them alive.
        try:
            _run(job, channel, rounds)
        except TargetError:
            save_values(channel, ROUNDS, rounds)


def _run(job: Job, channel: Channel, early: Rounds | None = None) -> Rounds | None:
    """Run the rounds and save them. If they fail early, return them instead. A second call, in which no state is put
    back, gets these rounds as `early`, and saves the longer of the two series."""
    with opened(job, channel) as session:
        given = given_reference(session)
        if given is None:
            return None
        reference = given[1]
        session.warm_up()
        # The program itself runs plain steps. Their results may differ from those of replays by rounding. Steps that
        # take the path of captures use the same kernels as replays, so the rounds then run such steps.
        session.capture_path = reference.rounding is not None and not reference.refused
        changed = {path for step in reference.steps for path in step.values}
        goes_on, watch = can_compare_continued(session, reference), PathWatch(session)
        watches = watch.is_needed
        written = {path for step in reference.steps for path in step.written}
        is_watched = watches or (goes_on and not has_compiled())
        eager = _Eager(session, reference, changed, watch if is_watched else None, written)
        same = SameInputs(session, reference.refreshed)
        for k in (*range(1, REPLAYS + 1), PAIR):
            session.put_inputs(k)
            same.give(k, reference.steps[k - 1].refreshed)
            eager.step(k)
        before = reachable_state(session.subject).tensors
        session.drop_gradients(reference.dropped)
        eager.step(PAIR + 1)
        after = reachable_state(session.subject).tensors
        channel.phase("further rounds")
        session.generators = generators_of(session.subject)
        # If a step binds a name to a new tensor, nothing uses the old one, so only tensors that keep their identity are
        # put back.
        kept_paths = [path for path in changed & after.keys() if after[path] is before.get(path)]
        rounds = Rounds(
            sorted(path for path in kept_paths if _is_put_back(session, after[path], path in eager.written))
            if early is None
            else ()
        )
        del before, after  # the variables would keep alive tensors that the refresh drops
        kept = DeviceStateCopy(session, rounds.put_back)
        inputs = inputs_of_rounds(session, kept)
        rounds.steps, rounds.is_whole = eager.rounds(inputs, kept.refresh, watches)
        rounds.is_faithful = not kept.is_refreshed
        rounds.steps_write = bool(eager.written)
        can_begin_again = len(rounds.steps) < _FEW and rounds.put_back and session.ranks.size == 1
        if eager.is_failed and can_begin_again:
            return rounds
        if early is not None and len(rounds.steps) <= len(early.steps):
            rounds = early
        # Rounds are skipped only if there is a single rank, because several ranks would have to agree before each
        # refresh.
        if rounds.is_whole and len(rounds.steps) < MOST_ROUNDS and session.ranks.size == 1:
            rounds.skipped, rounds.last = eager.skipping(inputs, watches)
            rounds.is_whole = len(rounds.last) == LAST_ROUNDS
        if rounds.is_whole:
            try:
                rounds.late = eager.late(kept)
            except TargetError:  # the other child does not run these rounds, so its state would differ
                rounds.is_whole = False
        save_values(channel, ROUNDS, rounds)
        # The file above is saved first, so that its results are not lost if the device fails from here on.
        if rounds.is_whole and goes_on:
            continued, _ = eager.rounds(inputs_of_continued_rounds(kept), session.put_inputs, watches=True)
            save_values(channel, GOING_ON, continued)
    return None


def _is_put_back(session: Session, tensor: torch.Tensor, is_written: bool) -> bool:
    """Return whether the values of a tensor are put back before each round. If steps change a tensor that only the host
    can write, the tensor is taken to be a counter of Python code. Such a counter is not put back, as in a program."""
    if is_written:
        return not session.device.is_pageable(tensor)
    return not tensor.is_floating_point()
