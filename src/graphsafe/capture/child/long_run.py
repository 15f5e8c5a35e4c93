"""Replays many times, to find what grows, slows down, drifts from eager steps or fails late.

Between replays the values of changed tensors are put back, because a cache must not overflow. The bindings of names are
not put back: a refresh may leak memory through such bindings, and putting them back would hide the leak. At ten points,
graphsafe collects garbage, measures memory, overwrites freed memory, and compares the outputs and the written state of
the replay with those of an eager step. (The overwriting exposes a graph that still reads freed memory.) If the same
inputs recur periodically, the outputs of each replay are compared with earlier outputs for the same inputs.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from graphsafe.capture.answers.probes import LongRun, Point
from graphsafe.capture.child.compare import Spread, difference
from graphsafe.capture.child.expected import EXPECTED, Expected
from graphsafe.capture.child.memory_use import memory_held
from graphsafe.capture.child.session import REPLAYS, Session, host_values, load_values
from graphsafe.capture.child.state import (
    Bindings,
    Snapshot,
    copies_of,
    defined_at,
    generators_of,
    inputs_of,
    reachable_state,
    smallest,
    undo_of,
)
from graphsafe.capture.child.targets import TargetError, describe
from graphsafe.capture.device.protocol import Recording
from graphsafe.report.probes.memory import Drift, Growth, Keeping, LateFailure, Moved

_POINTS = 10
_TIMED = 5
_WATCHED = 20
"Number of further replays that serve to find the lines that keep memory."
_MOST_SURPRISES = 50
"""If replays differ from an earlier replay, at most this many of them are compared with an eager step. A step with
float atomics has many such replays."""
_MOST_STATE = 256 * 2**20
"At most this many bytes of the state that replays write are compared. The smallest tensors are compared first."


def long_run(session: Session, recording: Recording, replays: int) -> LongRun:
    session.capture_path = True
    run = _LongRun(session, recording)
    marks = {max(1, round(replays * point / _POINTS)) for point in range(1, _POINTS + 1)}
    for number in range(1, replays + 1):
        try:
            run.replay(number)
            if number in marks:
                run.look(number)
        except TargetError as error:
            run.stopped = f"after {number - 1} replays: {error.line}"
            break
        except Exception as error:
            run.failure = LateFailure(number, run.right_until, describe(error))
            break
    else:
        run.look_for_lines(replays)
    return run.answer(replays)


class _LongRun:
    def __init__(self, session: Session, recording: Recording) -> None:
        self.failure: LateFailure | None = None
        self.stopped: str | None = None
        "The failure of the user's code that stopped the run early."
        self.right_until = 0
        "The last replay known to have succeeded. The device runs behind the host, so later replays may have failed."
        self._session = session
        self._recording = recording
        self._inputs_return = session.subject.refresh is None
        "Whether the same inputs recur periodically."
        self._compares_each = self._inputs_return and session.ranks.size == 1
        """Whether each replay is compared. This is False with several ranks, because all ranks would have to agree on
        each eager step."""
        folder = session.channel.folder
        expected: Expected | None = load_values(folder / EXPECTED) if (folder / EXPECTED).exists() else None
        self._noise = Spread() if expected is None else expected.noise
        self._rounding = (None if expected is None else expected.rounding) or Spread()
        self._prepare_replays()
        self._undo = self._what_changes()
        self._begun = time.perf_counter()
        self._since = 0
        self._drifts: dict[str, Drift] = {}
        self._points: list[Point] = []
        self._compared = 0
        self._surprises = 0
        self._given: dict[int, dict[str, str]] = {}
        "Index of the inputs -> digests of the outputs."
        self._places = {path: tensor.data_ptr() for path, tensor in self._state().items()}
        self._keeping: tuple[Keeping, ...] = ()
        self._moved: dict[str, int] = {}
        "Path of state that moved to other memory -> the replay after which the move was noticed."

    def _prepare_replays(self) -> None:
        """Find the generators to seed, and copy the inputs to the device. Replays then need no search and no copy."""
        session = self._session
        session.generators = generators_of(session.subject)
        if not self._inputs_return:
            return
        inputs = inputs_of(session.subject)
        copies = []
        for k, values in enumerate(session.sets, start=1):
            session.put_inputs(k)
            copies.append(copies_of(session.device, {path: inputs[path] for path in values}))
        session.sets = tuple(copies)

    def _what_changes(self) -> Callable[[], None]:
        """Return a function that undoes everything that a replay writes."""
        session = self._session
        session.put_inputs(1)
        state = Snapshot(session.device, session.subject, clear_caches=False)
        self._recording.replay()
        session.device.synchronize()
        self._written = frozenset(smallest({path: state.tensors[path] for path in state.changed()}, _MOST_STATE))
        return undo_of(session.device, state)

    def _state(self) -> dict[str, torch.Tensor]:
        inputs = inputs_of(self._session.subject)
        return {path: one for path, one in reachable_state(self._session.subject).tensors.items() if path not in inputs}

    def _inputs_of(self, number: int) -> int:
        return (number - 1) % REPLAYS + 1 if self._inputs_return else number

    def replay(self, number: int) -> None:
        self._undo()
        self._session.put_inputs(self._inputs_of(number))
        self._recording.replay()
        if self._compares_each and self._surprises < _MOST_SURPRISES:
            self._compare_with_before(number)

    def _compare_with_before(self, number: int) -> None:
        """Compare with earlier outputs for these inputs. If the outputs differ, an eager step decides whether they are
        wrong."""
        session, k = self._session, self._inputs_of(number)
        outputs = session.outputs_of(self._recording.outputs).tensors
        digests = session.device.digests(outputs)
        before = self._given.setdefault(k, digests)
        self.right_until = number
        self._compared += 1
        if digests != before:
            self._surprises += 1
            self._given[k] = digests
            self._compare(number, self._results(self._recording.outputs), self._eager(number))

    def look(self, number: int) -> None:
        session, device = self._session, self._session.device
        device.synchronize()
        step_ms = (time.perf_counter() - self._begun) * 1000 / (number - self._since)
        gc.collect()
        memory = device.memory()
        times = [device.time_ms(self._recording.replay) for _ in range(_TIMED)]
        known = [time for time in times if time is not None]
        ms, pool = statistics.median(known) if known else None, self._recording.pool_bytes()
        self._points.append(Point(number, memory.allocated, pool, _host_bytes(), ms, step_ms if known else None))
        for path, tensor in self._state().items():
            if tensor.data_ptr() != self._places.get(path, tensor.data_ptr()):
                self._moved.setdefault(path, number)
        self._undo()
        session.seed(self._inputs_of(number))
        device.reuse_freed()
        self._recording.replay()
        device.synchronize()
        self._compare(number, self._results(self._recording.outputs), self._eager(number))
        self._compared += 0 if self._compares_each else 1
        self.right_until = number
        self._begun, self._since = time.perf_counter(), number

    def look_for_lines(self, replays: int) -> None:
        """If more memory is in use than at the first point, run a few further replays to find the lines that keep
        memory."""
        first, last = (self._points[at].device_bytes for at in (0, -1))
        if first is None or last is None or last <= first:
            return
        try:
            with self._session.device.watch_memory() as events:
                for number in range(replays + 1, replays + 1 + _WATCHED):
                    self.replay(number)
        except Exception:  # a refresh may fail beyond the number of replays that the user asked for
            return
        lines = sorted(memory_held(events).lines, key=lambda line: -line.kept)
        self._keeping = tuple(Keeping(round(line.kept / _WATCHED), line.frames) for line in lines if line.kept)

    def _eager(self, number: int) -> dict[str, torch.Tensor]:
        """Return the results of an eager step from the same state and inputs as this replay."""
        session = self._session
        bindings = Bindings(reachable_state(session.subject))
        self._undo()
        session.seed(self._inputs_of(number))
        results = self._results(session.path_step())
        bindings.put_back()
        return results

    def _results(self, outputs: Any) -> dict[str, torch.Tensor]:
        """Return the outputs of a replay or of an eager step, and the state that replays write, copied to the host."""
        state = {f"state {path}": one for path, one in self._state().items() if path in self._written}
        return self._session.results_of(outputs) | host_values(self._session.device, state)

    def _compare(self, number: int, ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> None:
        for name, value in theirs.items():
            if name.startswith("state ") and name not in ours:
                continue
            apart = difference(ours.get(name), value)
            bounds = [spread.bound(name, value, apart) for spread in (self._noise, self._rounding)]
            bound = None if None in bounds else max(bound or 0.0 for bound in bounds)
            if apart.exceeds(bound):
                self._drifts.setdefault(name, Drift(name, number, apart.largest, bound))

    def answer(self, replays: int) -> LongRun:
        """Return the measurements. Each drift lists the state that has moved since the previous check."""
        moved = tuple(Moved(path, replay) for path, replay in self._moved.items())
        growth = Growth(
            replays=replays,
            compared=self._compared,
            keeping=self._keeping,
            moved=moved,
            # The cause cannot be state that moved before an earlier check, because that check found no drift.
            drifts=tuple(
                replace(one, moved=tuple(each.path for each in moved if each.replay == one.replay))
                for one in self._drifts.values()
            ),
            failure=self.failure,
            stopped=self.stopped,
        )
        return LongRun(growth, tuple(self._points), defined_at(self._session.subject.refresh))


def _host_bytes() -> int | None:
    """Return the host memory of this process, if the system reports it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
