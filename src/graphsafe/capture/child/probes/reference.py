"""The eager steps with which replays are compared. They run in a separate process, on a separate build of the target.

The step runs along the path that it takes during a capture: `torch.cuda.is_current_stream_capturing()` returns True.
Code that calls this function may choose another kernel (for masks, for example), and only results of the same kernels
can be compared bit for bit. If the step calls this function, the same steps also run as plain eager steps, and both
series have to agree within rounding.

Two files are shared with the capture child. `given.pt` has the values after construction that differ between builds.
`reference.pt` has the outputs and state of every step, the spread of eager runs, and the first step on new inputs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch

from graphsafe.capture.answers.build import Constructed
from graphsafe.capture.answers.events import Asked
from graphsafe.capture.answers.probes import Reference
from graphsafe.capture.child.compare import EQUAL, INCOMPARABLE, Difference, Spread, difference, worse_check
from graphsafe.capture.child.expected import EXPECTED, GIVEN, ConstructedState, Expected, StepResult
from graphsafe.capture.child.probes.events import fire_all
from graphsafe.capture.child.series import Series, born
from graphsafe.capture.child.session import FIRST_SEED, REPLAYS, Session, host_values, opened, save_values
from graphsafe.capture.child.state import Snapshot, StateError, inputs_of, reachable_state, tensors_of_refresh
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.shared.job import Channel, Job, read_answers
from graphsafe.capture.shared.replaced import replaced
from graphsafe.report.probes.replay import Check

_GIVEN_BYTES = 256 << 20
"If all values after construction take more bytes than this, only values that differ between builds are shared."
_AGAIN = 3
"""Number of times that the same steps are run again. Float atomics are unlikely to give the same results by chance in
so many runs."""
_SLOW_RUN = 10.0
"If one run takes more than this many seconds, the steps are run only one more time."
_NUDGES = 2
_UNITS_OF_CPU = 2.0
"The tolerance in units in the last place, on the simulated device."


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        channel.phase("share what construction left")
        start = Snapshot(session.device, session.subject)
        _save_given(session, start)
        runs = _Runs(session, start)
        save_values(channel, EXPECTED, runs.expected())
        channel.send(runs.answer())


def _save_given(session: Session, start: Snapshot) -> None:
    built = read_answers(session.channel.folder, "build")[Constructed].digests
    reach, of_refresh = reachable_state(session.subject), tensors_of_refresh(session.subject)
    digests = {**session.device.digests(of_refresh), **start.digests}
    small = sum(tensor.nbytes for tensor in reach.tensors.values()) <= _GIVEN_BYTES
    given = {path: one for path, one in reach.tensors.items() if small or built.get(path) != digests[path]}
    given |= {path: one for path, one in of_refresh.items() if built.get(path) != digests[path]}
    values = host_values(session.device, given)
    save_values(session.channel, GIVEN, ConstructedState(digests, reach.hosts, values, session.random_positions()))


class _Runs:
    """Makes all runs that are needed, in order, and compares them."""

    def __init__(self, session: Session, start: Snapshot) -> None:
        self._session = session
        self._start = start
        self.asked: list[Asked] = []
        self.refused: str | None = None
        "The reason why the step cannot be run eagerly along the path of a capture."
        begun = time.monotonic()
        self.first = self._first_run()
        slow = session.ranks.any(time.monotonic() - begun > _SLOW_RUN)
        again = [self._run(f"eager, run {n + 2}") for n in range(1 if slow else _AGAIN)]
        self.noise = spread_of([self.first, *again])
        self.repeats = not self.noise.units and not self.noise.unbounded
        if session.device.evidence == "predicted":
            # CPU kernels (of an LSTM, for example) round differently if memory is aligned differently. Count such
            # differences as chance.
            self.noise.units = max(self.noise.units, _UNITS_OF_CPU)
        self.rounding: Spread | None = None
        self.checks: list[Check] = []
        if session.ranks.any(bool(self.asked or self.refused)):
            self._compare_with_plain()
        control = self._run("the same inputs", vary=False)
        chance = self.noise
        if chance.unbounded:
            # The refresh may change state of its own, which is not put back. Runs without the refresh show how far
            # chance alone changes the results.
            chance = spread_of([control, self._run("the same inputs, run 2", vary=False)])
        self.varied = sum(_moved(self.first, control, at, chance, self._inputs) for at in range(REPLAYS))
        self.host_counts = self._host_counts(control)
        self.lazy_caches: list[str] = []
        self.first_step_failed: str | None = None
        self.lazy, self.first_step = self._first_step()
        self.event_failed: str | None = None
        self.events = self._events()

    def answer(self) -> Reference:
        lazy, caches, checks = tuple(self.lazy), tuple(self.lazy_caches), tuple(self.checks)
        asked, counts = tuple(dict.fromkeys(self.asked)), tuple(sorted(self.host_counts))
        failed = (self.event_failed, self.first_step_failed)
        later = (tuple(sorted(self._start.bindings.refused)), len(self.events))
        return Reference(self.varied, lazy, caches, asked, checks, self.refused, counts, *failed, *later)

    def expected(self) -> Expected:
        start = {path: values for path, values in self._start.values.items() if path in self.first.changed}
        return Expected(
            self.first.steps,
            self.noise,
            self.rounding,
            self.refused,
            start,
            self.first_step,
            self.events,
            self.repeats,
            self.host_counts,
            self.first.refreshed,
            self.first.dropped,
        )

    def _host_counts(self, control: Series) -> frozenset[str]:
        """Return the counts on the host: tensors that the device cannot write, that steps change, and whose values do
        not depend on the inputs.

        Replays do not change these tensors, just as they do not change counts in Python. The outputs and the further
        steps (`horizon.py`) show whether such a count matters.
        """
        session, steps = self._session, [*zip(self.first.steps, control.steps, strict=True)]
        return frozenset(
            path
            for path, tensor in reachable_state(session.subject).tensors.items()
            if path in self.first.changed - self._inputs
            and session.device.is_pageable(tensor)
            and all(one.state.get(path) == other.state.get(path) for one, other in steps)
        )

    @property
    def _inputs(self) -> frozenset[str]:
        return frozenset(inputs_of(self._session.subject))

    def _first_run(self) -> Series:
        """Run the first series along the path of captures. If the step fails on that path, run the series as plain
        steps."""
        series = Series(self._session, self._start)
        error = None
        try:
            with self._capture_path():
                series.run("eager, run 1")
        except TargetError as raised:
            error = raised.line
        refusals = [line for line in self._session.ranks.gather(error) if line is not None]
        if not refusals:
            return series
        self._start.put_back()
        plain = Series(self._session, self._start)
        plain.run("eager, run 1, as if nothing were captured")
        self.refused = error or refusals[0]
        return plain

    def _run(self, name: str, *, vary: bool = True, plain: bool = False, nudge: int | None = None) -> Series:
        self._start.put_back()
        series = Series(self._session, self._start, nudge, _like=self.first)
        with self._capture_path(plain or self.refused is not None):
            try:
                series.run(name, vary)
            except TargetError as error:
                # The first run succeeded, so this failure shows that the step depends on something that is not put
                # back, such as a file.
                raise StateError(f"with its state restored {error.line}") from error
        return series

    def _capture_path(self, plain: bool = False) -> AbstractContextManager[None]:
        return replaced((self._session, "capture_path", not plain), (self._session, "asked", self.asked.append))

    def _compare_with_plain(self) -> None:
        """Compare the path of captures with plain eager steps, with a tolerance for rounding."""
        plain = self.first if self.refused else self._run("plain eager steps", plain=True)
        if not self.refused and not self._session.ranks.any(_differ(self.first, plain)):
            self.checks = [_check(name) for name in self.first.steps[0].outputs]
            return
        nudged = [self._run(f"inputs moved by one unit, run {n + 1}", plain=True, nudge=n) for n in range(_NUDGES)]
        self.rounding = Spread(units=self.noise.units)
        for other in nudged:
            add_run(self.rounding, plain, other)
        if not self.refused:
            self.checks = compared(self.first, plain, self.noise, self.rounding)

    def _events(self) -> list[StepResult]:
        """Run a step after each event, until an event or its step fails. This method is called last, because an event
        may make changes that cannot be undone."""
        if not self._session.subject.events:
            return []
        series = self._run("before the events")
        done = len(series.steps)
        with self._capture_path(self.refused is not None):
            self.event_failed = fire_all(self._session, series.after_event)
        return series.steps[done:]

    def _first_step(self) -> tuple[list[str], StepResult | None]:
        """Run the first step on the inputs of replay 1. Return the state that step 1 computes from its inputs and that
        later steps keep. Also return the results of this first step."""
        first, session = self.first, self._session
        if not session.ranks.any(bool(first.born or first.filled)):
            return [], None
        session.channel.phase("a first step on new inputs")
        self._start.put_back()
        if session.ranks.any(self._start.bindings.keeps_results):
            refused = ", ".join(sorted(self._start.bindings.refused)) or "another rank cannot repeat it"
            raise StateError(f"step 1 cannot be repeated: {refused}")
        before = reachable_state(session.subject)
        try:
            session.put_inputs(1)
        except TargetError as error:  # the refresh needs something that an earlier step leaves
            self.first_step_failed = error.line
            return [], None
        # Use the seed of the first warm-up step. Otherwise state with random numbers would look as if it depended on
        # the inputs.
        session.seed(FIRST_SEED)
        outputs = session.outputs_of(session.step())
        after = reachable_state(session.subject)
        follows = born(session, self._start, before, after)
        lazy = [
            path
            for path, value in first.born.items()
            if path in follows and follows[path] != value and first.settled.get(path) == value
        ]
        # The values in a cache cannot be compared. The outputs show whether these values matter.
        kept = after.caches
        self.lazy_caches = [path for path, size in first.filled.items() if path in kept and kept[path][1] == size]
        if not session.ranks.any(bool(lazy or self.lazy_caches)):
            return [], None
        return lazy, StepResult(host_values(session.device, outputs.tensors), dict(outputs.hosts))


def spread_of(runs: list[Series]) -> Spread:
    spread = Spread()
    for left, right in itertools.combinations(runs, 2):
        add_run(spread, left, right)
    return spread


def add_run(spread: Spread, left: Series, right: Series) -> None:
    for one, other in zip(left.steps, right.steps, strict=True):
        for name, value in one.outputs.items():
            spread.add(name, value, other.outputs.get(name))
        for path in _apart(one.state, other.state):
            spread.add(path, one.values.get(path), other.values.get(path))
        spread.unbounded |= _apart(one.hosts, other.hosts)


def compared(path: Series, plain: Series, noise: Spread, rounding: Spread) -> list[Check]:
    """Compare the steps along the path of captures with plain eager steps: their outputs, and state that differs."""
    checks: dict[str, Check] = {}

    def add(name: str, step: int, apart: Difference, value: torch.Tensor | None) -> None:
        plain_name = name.removeprefix("state ")
        floor = noise.bound(plain_name, value, apart)
        # Some values, such as an argmax, may change by any amount if inputs move by one unit in the last place. Such a
        # value cannot show a difference between the two paths.
        moved = None if value is None else rounding.bound(plain_name, value, apart)
        floor = None if plain_name in rounding.unbounded else floor
        checks[name] = worse_check(checks.get(name, _check(name)), step, apart, floor, moved)

    for number, (one, other) in enumerate(zip(path.steps, plain.steps, strict=True), start=1):
        for name, value in other.outputs.items():
            add(name, number, difference(one.outputs.get(name), value), value)
        for name in one.hosts.keys() | other.hosts.keys():
            add(name, number, EQUAL if one.hosts.get(name) == other.hosts.get(name) else INCOMPARABLE, None)
        for name in sorted(_apart(one.state, other.state)):
            right = other.values.get(name)
            add(f"state {name}", number, difference(one.values.get(name), right), right)
    return list(checks.values())


def _check(name: str) -> Check:
    return Check(f"{name} along the path of captures", compares="plain eager")


def _differ(left: Series, right: Series) -> bool:
    for one, other in zip(left.steps, right.steps, strict=True):
        if one.state != other.state or one.hosts != other.hosts or one.outputs.keys() != other.outputs.keys():
            return True
        if any(not difference(value, other.outputs[name]).equal for name, value in one.outputs.items()):
            return True
    return False


def _apart(left: Mapping[str, str], right: Mapping[str, str]) -> set[str]:
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


def _moved(first: Series, second: Series, at: int, noise: Spread, inputs: frozenset[str]) -> bool:
    """Return whether new inputs changed an output or state of a step by more than chance alone does. State that only
    the refresh writes is ignored. An input that the step writes, for example `out`, is treated as state."""
    varied, control = first.steps[at], second.steps[at]
    before = first.steps[at - 1].state if at else first.warm
    left_alone = {path for path, digest in varied.given.items() if before.get(path) == digest}
    written = set(varied.written) & {*control.written, *left_alone}
    for path, value in varied.outputs.items():
        if path in control.outputs and noise.is_exceeded(path, value, control.outputs[path]):
            return True
    for path in _apart(varied.state, control.state) & (first.stepped - inputs | written) - noise.unbounded:
        if noise.is_exceeded(path, varied.values.get(path), control.values.get(path)):
            return True
    return bool(_apart(varied.hosts, control.hosts) - noise.unbounded)
