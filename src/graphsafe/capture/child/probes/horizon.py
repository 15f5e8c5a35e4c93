"""Runs many more eager steps, to see whether Python still launches the operations that a capture fixed.

Because of a counter, a schedule, an iterator or a clock, Python may take another path a hundred steps later. Steps are
compared by their operations, with shapes and numbers. Computed values are not compared, so each step runs only once.
State on the device is put back after each step, so that positions do not run out of their buffers. Host state keeps
changing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from graphsafe.capture.answers.probes import StateWrites
from graphsafe.capture.child.lines.clocks import A_DAY, LATER, clocks_ahead
from graphsafe.capture.child.lines.operations import Operation, Unnamed, calls_of, name_of_path, texts_of
from graphsafe.capture.child.probes.further import host_trials
from graphsafe.capture.child.probes.further.counters import (
    BEFORE,
    SETTLING_STEPS,
    Counters,
    Settled,
    around,
    first_departing,
)
from graphsafe.capture.child.probes.further.refresh_calls import RefreshCalls
from graphsafe.capture.child.probes.further.step_ahead import EARLY, StepAhead
from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import (
    Bindings,
    StateError,
    call_reset,
    copies_of,
    generators_of,
    reach_with_refresh,
)
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.child.time_left import TimeLeft, power_of_two
from graphsafe.capture.shared.replaced import replaced
from graphsafe.report.probes.horizon import USUAL_STEPS, Departure, Horizon

LATER_STEPS = 1024
"""This many further steps run if time allows, and if a refresh or host state may change Python's later decisions. See
also `USUAL_STEPS`."""
_CPU_SECONDS, _SECONDS = 3.0, 20.0
"No further step starts after this many seconds of CPU time, or this many seconds in total; see `_go_on`."
_CPU_SECONDS_FREELY = 1.0
"The limit of CPU time for steps that put no state back."
_CPU_SECONDS_AHEAD = 4.0
"The limit of CPU time for steps after jumps of counters."
_CPU_SECONDS_CALLS = 3.0
"The limit of CPU time for calls of the refresh alone, with the steps between them."
_CLOCK_STEPS = 2
_LATER_CLOCKS = (1.0, 3.0)
"After this many seconds of CPU time, or of total time, no further clock settings are tried."
_MOST_PATHS = 64
"""If further steps take paths that differ from the path of the captured step, at most this many of these paths are
recorded. A step with more paths depends on a changing number."""
_MANY_PATHS = 8
"If steps take more new paths than this and no path repeats, rounds cannot test the paths that later steps will take."


def run_further_steps(
    session: Session, is_excluded: Callable[[], bool] = lambda: False, most: int = USUAL_STEPS
) -> Horizon:
    """Run up to `most` further steps from a warm state, if possible along the path of captures. The session cannot be
    used afterwards. Operations that run while `is_excluded()` is true are not compared."""
    try:
        ahead = _Ahead(session, is_excluded, most)
        return replace(ahead.run(), files_read=ahead.files.shown(), is_cut=ahead.is_cut)
    except TargetError as error:
        return Horizon(reason=f"the step cannot be run once more: {error.line}")


class _Ahead(StepAhead):
    def __init__(self, session: Session, is_excluded: Callable[[], bool], most: int) -> None:
        super().__init__(session, is_excluded)
        self._most = most
        self._turns: list[tuple[Operation, ...]] = []
        """The paths that further steps took, in order. Equal paths in a row are listed once. () stands for the captured
        path."""
        self._drifts = False
        "Whether there were many paths and none of them repeated. Later steps are then expected to take more new paths."
        self._changing: tuple[str, ...] = ()
        "Numbers on the host that are still changing when the further steps end."
        self._settled: Settled | None = None
        "The state after `SETTLING_STEPS` further steps."
        self._counters: Counters | None = None
        self.is_cut = False
        "Whether the time was over before the counters had all values at which Python may decide differently."
        self._last = 0
        "The number of the step after which the counters were read."

    def run(self) -> Horizon:
        session = self.session
        session.channel.phase("steps ahead")
        session.capture_path = True
        try:
            before = session.device.digests(self._alive)
            try:
                self._step(self._record)
            except TargetError:
                session.capture_path = False
                self._expected.clear()
                self.writers.clear()
                self._used.clear()
                self._unnamed = Unnamed()
                self._read_state()  # the step may have replaced tensors before it failed
                before = session.device.digests(self._alive)
                self._step(self._record)
            self._unnamed.is_recording = False
            session.channel.send(StateWrites.of(self.writers, self.unread()))
            session.generators = generators_of(session.subject)
            after = session.device.digests(self._alive)
            changed = [path for path, digest in after.items() if before[path] != digest]
            self._put_back = copies_of(session.device, {path: self._alive[path] for path in changed})
            return self._go_on()
        finally:
            session.capture_path = False

    def _go_on(self) -> Horizon:
        session = self.session
        early = Bindings(reach_with_refresh(session.subject))
        held, reason = self._further(_CPU_SECONDS)
        self._drifts = len(self._turns) > _MANY_PATHS and len(set(self._turns)) == len(self._turns)
        if self.departure is None and self._may_go_on_freely(reason) and self._is_as_before(early):
            with replaced((self, "_put_back", {})):
                freely, failure = self._further(_CPU_SECONDS_FREELY)
            if reason is not None and freely > held:
                held, reason = freely, failure
        # All ranks end here together: a rank that went on would wait for the others in its next collective.
        if session.ranks.any(self.departure is not None):
            return self._departed(held)
        if reason is not None and (session.ranks.size > 1 or not self._works_from(early)):
            return self._ended(held, reason)
        if reason is None and session.ranks.size == 1 and not self._count(early):
            return self._departed(held)
        self.under = "clocks a day later"
        with clocks_ahead(A_DAY) as shift:
            for at, shift.seconds in enumerate((*[A_DAY] * _CLOCK_STEPS, *LATER)):
                if session.ranks.any(at >= _CLOCK_STEPS and shift.is_over(*_LATER_CLOCKS)):
                    break
                self.one_more_step()
                if session.ranks.any(self.departure is not None) and not self.is_known_path():
                    return self._departed(held)
        if session.ranks.size == 1:
            host_trials.change_files(self)
            host_trials.draw_rarely(self)
            if self.departure is None:
                host_trials.change_host_values(self)
            if self.departure is None:
                self._jump()
            if self.departure is None:
                self._call_refresh()
        if self.departure is not None:
            return self._departed(held)
        # The number of steps that fit into the time differs from run to run, but the number in the report should not
        # differ.
        return self._ended(power_of_two(held) if reason is None else held, reason)

    def _further(self, cpu_seconds: float) -> tuple[int, str | None]:
        """Run further steps until a step departs from the captured path or fails. Return the number of steps before
        this step, and the error if the step failed."""
        time_left, held, reset_at = TimeLeft(cpu_seconds, _SECONDS), 0, -1
        self._turns, self._settled = [], None
        for number in range(1, self._most + 1):
            if self.session.ranks.any(time_left.is_over(held)):
                break
            self.number = number
            try:
                self._compared_step()
            except TargetError as error:
                # An index ran beyond its buffer. A real program would have reset the index earlier.
                self.departure = None
                # With several ranks, the other ranks would go on without a reset.
                can_go_on = number != reset_at + 1 and self.session.ranks.size == 1
                if not can_go_on or not call_reset(self.session.subject):
                    return held, f"step {number} ahead failed: {error.line}"
                reset_at = number
                continue
            path = () if self.departure is None else tuple(self._path)
            if self.session.ranks.any(self.departure is not None) and not self._takes_other_path():
                break
            if path not in self._turns[-1:]:
                self._turns.append(path)
            held = number
            if number == SETTLING_STEPS:
                self._settled = Settled.after(self.session, reach_with_refresh(self.session.subject), number)
        return held, None

    def _count(self, early: Bindings) -> bool:
        """Run one more step to see which numbers it changes. Return False if this step departs from known paths."""
        counters = Counters(self.session, early.reach, self.number, self._settled)
        with counters.watched():
            is_done = self.one_more_step()
        if not is_done:
            return True
        if self.departure is not None and not self._takes_other_path():
            return False
        with suppress(StateError):
            self._changing = counters.look()
            self._counters, self._last = counters, self.number
        return True

    def _jump(self) -> None:
        """Move counters forward to values at which Python may decide differently, and run steps from there."""
        if not self._counters or self._most <= USUAL_STEPS or not self.session.works():
            return
        self.under, time_left = "further steps", TimeLeft(_CPU_SECONDS_AHEAD, _SECONDS)
        counters = self._counters
        try:
            end = math.inf
            for done, steps in enumerate(counters.jumps()):
                self.is_cut = time_left.is_over(done)
                if self.is_cut or self.departure is not None:
                    return
                if steps.start < end and not self._holds_after_jump(counters, steps):
                    end = steps.start
            if self.departure is None:
                far = first_departing(functools.partial(self._try_ahead, counters), time_left)
                if far is not None and far < end:
                    self._holds_after_jump(counters, around(far))
        except (StateError, TargetError, RuntimeError):
            self.departure = None  # a counter came to its end, or other state does not agree with the counters
        finally:
            with suppress(StateError):
                self._counters.set_ahead(0)

    def _call_refresh(self) -> None:
        """Call the refresh without steps, and run a step after each call that changes the host in a new way."""
        if self.session.subject.refresh is None or self._most <= USUAL_STEPS or not self.session.works():
            return
        self.under, self.number = "further steps", self._last or self.number
        # Calls lead on from the current state only if the jumps before have left nothing behind.
        if not self.one_more_step() or self.departs():
            self.departure = None
            return
        self.is_prepared, calls = True, RefreshCalls(self.session, self.number)
        try:
            for self.number in calls.changes(TimeLeft(_CPU_SECONDS_CALLS, _SECONDS)):
                self._compared_step()
                if self.departs():
                    return
        except (TargetError, RuntimeError):
            self.departure = None  # the data came to their end, or a position is beyond its buffer

    def _try_ahead(self, counters: Counters, ahead: int) -> bool | None:
        """Run the step after `ahead` more steps. Return whether the step's path is known. Return None if the step
        cannot be reached."""
        counters.set_ahead(ahead)
        self.number = self._last + ahead
        if not self.one_more_step():
            return None
        is_known = not self.departs()
        self.departure = None
        return is_known if counters.are_ahead(ahead + 1) else None

    def _holds_after_jump(self, counters: Counters, steps: range) -> bool:
        """Return whether steps after a jump are like those before. A departure of the first steps is ignored, because
        other state then does not agree with the counters."""
        counters.set_ahead(steps.start)
        for ahead in steps:
            self.number = self._last + ahead
            if not self.one_more_step():  # a position is beyond its buffer
                return False
            if self.departs():
                if steps.start > 0 and ahead < steps.start + BEFORE:
                    self.departure = None
                return False
            if not counters.are_ahead(ahead + 1):  # the step or its refresh sets the counter back
                return False
        return True

    def _may_go_on_freely(self, reason: str | None) -> bool:
        """Return whether a second series of further steps runs, in which no state is put back, as in a program. Such a
        series runs after a failure: the refresh may have failed only because counts of the steps were put back. It also
        runs on a simulated device, because the refresh may take another path that depends on such a count. On a GPU,
        continued rounds show such a path."""
        session = self.session
        if session.ranks.size > 1 or not self._put_back:
            return False
        is_predicted = session.device.evidence == "predicted" and session.subject.refresh is not None
        return reason is not None or is_predicted

    def _is_as_before(self, early: Bindings) -> bool:
        """Put the state of the first steps back. Return whether this worked."""
        try:
            early.put_back()
        except StateError:
            return False
        for path, values in self._put_back.items():
            self.session.device.store(self._alive[path], values)
        return self.session.works()

    def _works_from(self, early: Bindings) -> bool:
        """After a step has failed, put back the host state of the first steps. Clocks and values on the host can then
        still be changed for trials. Return whether the step does the same as before."""
        if self.session.subject.refresh is not None:
            self.number = EARLY  # the refresh may have come to the end of its data
        try:
            early.put_back()
            return self.session.works() and self.one_more_step() and self.departure is None
        except StateError:
            return False
        finally:
            self.departure = None

    def _takes_other_path(self) -> bool:
        """Return whether the current step differs from the captured step only in the operations that run. Rounds of the
        refresh can then show whether both steps compute the same. Rounds cannot test a step that uses other memory: the
        memory of the capture may have been freed and may still hold the same values."""
        departure, session = self.departure, self.session
        known = texts_of(operation for operation, _ in self._expected)
        if departure is None or departure.what == "memory" or not texts_of(self._path) <= known:
            return False
        if session.subject.refresh is None or session.ranks.size > 1 or len(self._paths) >= _MOST_PATHS:
            return False
        self._paths.setdefault(tuple(self._path), departure)
        self.departure = None
        return True

    def _ended(self, held: int, reason: str | None = None) -> Horizon:
        paths, varying = self._other_paths(), tuple(sorted(self._may_vary))
        if not paths:
            return Horizon("pass", reason, steps=held, changing=self._changing)
        last = paths[-1] if self._drifts else None
        steps = paths[0].step - 1
        found = Horizon("fail", reason, steps=steps, departure=paths[0], paths=paths, last=last, varying=varying)
        return replace(found, changing=self._changing)

    def _other_paths(self) -> tuple[Departure, ...]:
        return tuple(
            replace(departure, path=name_of_path(calls_of(path, self._may_vary)))
            for path, departure in self._paths.items()
        )

    def _departed(self, held: int) -> Horizon:
        if self.departure is None:
            return Horizon("pass", "another rank's step differs from its capture, so no further steps run", steps=held)
        paths, varying = self._other_paths(), tuple(sorted(self._may_vary))
        first, last = (*paths, self.departure)[0], self.departure
        steps = min(held, first.step - 1)
        return Horizon("fail", steps=steps, departure=first, paths=paths, last=last, varying=varying)
