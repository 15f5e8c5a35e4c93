"""Replays after each round of the target's refresh, and compares with the eager rounds; see `eager_rounds.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import torch

from graphsafe.capture.answers.probes import ComparedRounds, Fired, TakenPath
from graphsafe.capture.child.compare import difference
from graphsafe.capture.child.copied_state import DeviceStateCopy
from graphsafe.capture.child.expected import StepResult
from graphsafe.capture.child.probes.capture import Replays, replayed, wait_for_file
from graphsafe.capture.child.probes.eager_rounds import (
    GOING_ON,
    LAST_ROUNDS,
    LATE_INPUTS,
    ROUNDS,
    Rounds,
    event_since,
    inputs_of_continued_rounds,
    inputs_of_rounds,
    late_rounds,
)
from graphsafe.capture.child.probes.round_paths import can_compare_continued
from graphsafe.capture.child.probes.state import lines_that_rebind
from graphsafe.capture.child.session import Session, load_values, opened
from graphsafe.capture.child.state import defined_at, generators_of, inputs_of, moved_tensors, reachable_state
from graphsafe.capture.child.targets import TargetError, describe
from graphsafe.capture.shared.frames import error_frames
from graphsafe.capture.shared.job import EAGER_ROUNDS, Channel, Job
from graphsafe.report.probes.probe import Error
from graphsafe.report.probes.replay import Check

_SMALL = 1e-3
"If the first difference is at most this share of the largest element, it may come from chance."


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        first = replayed(session)
        if first is None:
            return
        channel.phase("wait for the eager rounds")
        if not wait_for_file(session, ROUNDS, EAGER_ROUNDS):
            return
        rounds: Rounds = load_values(channel.folder / ROUNDS)
        if not all(check.equal for check in first.result.checks or ()):
            rounds = replace(rounds, is_whole=False)  # tiny differences would grow in continued rounds
        channel.phase("further rounds")
        session.generators = generators_of(session.subject)
        try:
            channel.send(_Compared(session, first).run(rounds))
        except torch.OutOfMemoryError as error:
            raise TargetError("step", describe(error)) from error


class _Compared:
    def __init__(self, session: Session, first: Replays) -> None:
        self._session = session
        self._first = first
        self._result = ComparedRounds(refresh=defined_at(session.subject.refresh))
        self._moved_at = 0
        "The round before which state moved to other memory, given by the index of the round's inputs."

    def run(self, rounds: Rounds) -> ComparedRounds:
        """Compare round after round, until one fails."""
        kept = DeviceStateCopy(self._session, rounds.put_back)
        try:
            inputs = inputs_of_rounds(self._session, kept)
            self._compare(rounds.steps, inputs, kept, len(rounds.steps))
            varied = _varied(rounds.steps[: self._result.number])
            self._result = replace(self._result, varied=varied, is_faithful=rounds.is_faithful)
            if rounds.last:
                for number in islice(inputs, rounds.skipped):
                    self._session.put_inputs(number)
                self._compare(rounds.last, inputs, kept, LAST_ROUNDS)
            if rounds.late:
                self._result = replace(self._result, late=self._compare_late(kept, rounds.late))
            goes = rounds.is_whole and can_compare_continued(self._session, self._first.reference) and not self._differs
            if goes and wait_for_file(self._session, GOING_ON, EAGER_ROUNDS):
                steps = load_values(self._session.channel.folder / GOING_ON)
                before = self._result.number
                self._compare(steps, inputs_of_continued_rounds(kept), kept, len(steps))
                if not varied and not (rounds.steps_write and inputs_of(self._session.subject)):
                    # These rounds differ because of the refresh, unless steps write state. If a step without inputs
                    # changes its state, this state is all that it reads.
                    self._result = replace(self._result, varied=_varied(steps[: self._result.number - before]))
        except TargetError as error:
            failure = Error(f"after replays {error.line}", frames=error_frames(error.__cause__))
            self._result = replace(self._result, error=failure)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            self._result = replace(self._result, error=Error(describe(error)))
        if self._result.moved and self._session.works():
            lines = lines_that_rebind(self._session, self._result.moved, self._moved_at)
            self._result = replace(self._result, moved_by=tuple(lines))
        return self._result

    @property
    def _differs(self) -> bool:
        return any(check.result == "different" for check in (*self._result.checks, *self._result.late))

    def _compare(self, steps: Sequence[StepResult], inputs: Iterator[int], kept: DeviceStateCopy, last: int) -> None:
        """Compare further rounds. The numbers and checks of these rounds continue those of earlier rounds.
        Before round `last`, freed memory is overwritten."""
        replays = self._first.compared_with(steps)
        steady, before, differs = reachable_state(self._session.subject).places(), self._result, False
        for number, of_inputs in zip(range(1, len(steps) + 1), inputs, strict=False):
            step, is_last = steps[number - 1], number == last
            checks = replays.once(number, of_inputs, partial(self._before_replay, kept, step, is_last))
            if before.number and not differs and not self._is_new(step, steps[0]) and _may_be_chance(checks, step):
                return
            paths = _with_path(self._result.paths, step, replays.is_exact)
            checks = tuple(replace(one, replay=before.number + (one.replay or number)) for one in checks)
            done = before.number + number
            found = replace(self._result, number=done, checks=(*before.checks, *checks), paths=paths)
            self._result = replace(found, doubt=before.doubt or replays.doubt)
            if differs:
                continue
            differs = any(check.result == "different" for check in checks)
            now = reachable_state(self._session.subject).places()
            if differs:
                elsewhere = moved_tensors(steady, now)
                event = None if before.number else event_since(self._session, number - 1)
                place = None if event is None else defined_at(self._session.subject.events[event])
                fired = () if event is None else (Fired(event, place, elsewhere, checks),)
                self._result = replace(self._result, moved=elsewhere, after=fired, freed=is_last)
                self._moved_at = of_inputs
            # If state moves in every round, its moves cause no harm. So only state that has not moved yet is watched.
            steady = {path: place for path, place in steady.items() if now.get(path) == place}

    def _before_replay(self, kept: DeviceStateCopy, step: StepResult, is_last: bool) -> None:
        kept.release(step.released)
        if is_last:
            # If the refresh has freed memory that the graph uses, this round shows it.
            self._session.device.reuse_freed()

    def _is_new(self, step: StepResult, usual: StepResult) -> bool:
        """Return whether a step takes a path that no earlier round took. If so, chance does not explain a difference in
        its results."""
        return step.path not in {usual.path, *(one.path for one in self._result.paths)}

    def _compare_late(self, kept: DeviceStateCopy, steps: Sequence[StepResult]) -> tuple[Check, ...]:
        replays, session, same = self._first.compared_with(steps), self._session, self._first.same
        given = [
            self._on_device({path: one.refreshed[path] for path in same.by_chance & one.refreshed.keys()})
            for one in steps
        ]

        def put(number: int) -> None:
            session.put_inputs(number)
            same.store(given[number - LATE_INPUTS.start])

        found = late_rounds(session, kept, put, self._replay)
        checks = [replays.compared(number, one.outputs) for number, one in enumerate(found, start=1)]
        return checks[-1] if checks else ()

    def _on_device(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return these values on the device, so that the device can copy them without a wait."""
        tensors, device = reachable_state(self._session.subject).tensors, self._session.device
        found = {path: device.copied(tensors[path]) for path in values}
        for path, one in found.items():
            device.store(one, values[path])
        return found

    def _replay(self) -> Any:
        self._first.recording.replay()
        return self._first.recording.outputs


def _varied(steps: Sequence[StepResult]) -> int:
    """Return the number of steps whose outputs differ from those of the first step."""
    if not steps:
        return 0
    found = [step.outputs for step in steps]
    return sum(any(not difference(one.get(name), value).equal for name, value in found[0].items()) for one in found[1:])


def _with_path(paths: tuple[TakenPath, ...], step: StepResult, is_exact: bool) -> tuple[TakenPath, ...]:
    """Return the paths, with the path of one more step added."""
    if not step.path:
        return paths
    found = {one.path: one for one in paths}
    known = found.get(step.path, TakenPath(step.path, True, False))
    found[step.path] = TakenPath(step.path, known.is_exact and is_exact, known.is_shown or step.is_shown)
    return tuple(found.values())


def _may_be_chance(checks: Sequence[Check], step: StepResult) -> bool:
    """Return whether values differ, but all of them only a little. Sums by atomics differ in this way, sometimes
    between eager steps too, and the difference grows in continued rounds. The first difference of a fault is seldom so
    small."""
    different = [check for check in checks if check.result == "different"]
    if not different:
        return False
    values = {**step.outputs, **{f"state {path}": value for path, value in step.values.items()}}
    return all(_is_small(check.max_abs, values.get(check.name)) for check in different)


def _is_small(difference: float | None, value: torch.Tensor | None) -> bool:
    if difference is None or value is None or not value.is_floating_point():
        return False
    return difference <= _SMALL * float(value.abs().nan_to_num().max())
