"""Captures a step again some steps later. If the two graphs differ, Python froze a value that changes.

Results are not compared with a reference. So no input has to be varied, and even a frozen clock value is found. A
different kernel or size is already proof. A different number or address is proof only if the two graphs also compute
different results from the same state, because unused bytes between a kernel's arguments may differ.

Trials then find the cause. The state that steps have changed is put back, first all of it, then piece by piece, and the
step is captured again. A piece is the cause if the difference disappears when it is put back.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.child.probes.before import PreCaptureState, changes_between
from graphsafe.capture.child.probes.state import lines_that_rebind
from graphsafe.capture.child.probes.twin_replays import TwinReplays
from graphsafe.capture.child.session import CAPTURE_SEED, Session
from graphsafe.capture.child.state import (
    StateError,
    call_reset,
    copies_of,
    moved_tensors,
    put_back_host,
    reachable_state,
)
from graphsafe.capture.child.state.reach import Constants
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.child.time_left import TimeLeft
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.device.protocol import NotComparable, Recording
from graphsafe.report.probes.probe import ProbeStatus
from graphsafe.report.probes.twin import Cause, Difference, Twin

_LEAST_CAPTURES = 3
_MOST_CAPTURES = 7
"The largest number of captures. This is enough to notice Python code that acts differently in one of eight steps."
_SECONDS = 2.0
"After the minimum number of captures, no capture starts after this many seconds."
MAY_BE_CHANCE = ("scalar", "address")
"Kinds of differences that may be in unwritten bytes between arguments. Such bytes keep old contents."
_MOST_TRIALS = 24
_MOST_NAMED = 4
_MOST_REPORTED = 64
_OLDER = 256
"""The number of steps before a last capture. A limit that depends on a count of steps may have no effect in the first
captures, but change the results a hundred steps later."""
_OLDER_SEED = 90_000

Explained = tuple[list[Difference], list[Cause], str | None]


def compare_captures(session: Session, decisive: Recording, constants: Constants, repeats: bool = True) -> Twin:
    """Capture the step several times, and compare with the recording that was replayed. Return the probe `twin`. This
    changes the session's state, so it must be the last action of a child.

    `repeats` says whether eager steps of the reference repeat bit for bit. If they do not, more replays of each graph
    are needed to see which differences are due to chance.

    `constants` are small host values, such as numbers, from before the decisive capture. No other state from that time
    may be kept alive: memory that only the graph uses must be free, so that it can be overwritten.
    """
    # Garbage is collected before each capture. This is cheap if the objects that exist now are frozen, so that the
    # collector skips them.
    gc.collect()
    gc.freeze()
    try:
        return Twins(session, decisive, constants, repeats).run()
    except NotComparable as error:
        return Twin(reason=str(error))


class Twins:
    def __init__(self, session: Session, decisive: Recording, constants: Constants, repeats: bool = True) -> None:
        self._session = session
        self._constants = constants
        self._replays = TwinReplays(session, repeats)
        self._captures = 1
        self._opaque = bool(decisive.opaque_nodes())
        self._eager_error: str | None = None
        "The error of the eager step that was run because a further capture had failed."
        self._before = PreCaptureState(session)
        self._decisive = decisive
        self._first: Recording = decisive
        """The recording with which later captures are compared. At first this is the decisive recording. From the
        second capture on, it is the recording of that capture, whose state and seed are known."""
        self._seed = CAPTURE_SEED

    def run(self) -> Twin:
        ranks = self._session.ranks
        begun = time.monotonic()
        unlike: list[Difference] = []
        ineffective: dict[Key, Difference] = {}
        is_late = False
        while True:
            late = self._captures > _LEAST_CAPTURES and time.monotonic() - begun > _SECONDS
            if ranks.any(late or self._captures > _MOST_CAPTURES):
                # A number may change without effect now, but have an effect much later.
                if is_late or unlike or not ineffective or not _run_steps(self._session):
                    break
                is_late = True
            self._session.channel.phase(f"capture {self._captures + 1}, to compare")
            start = PreCaptureState(self._session)
            seed = CAPTURE_SEED + self._captures
            again = self.record(seed)
            if isinstance(again, CaptureFailure) and self._is_out_of_room() and call_reset(self._session.subject):
                self._eager_error = None
                again = self.record(seed)
            failed = ranks.any(isinstance(again, CaptureFailure))
            if isinstance(again, CaptureFailure):
                return self._answer("pass", [*ineffective.values()]) if is_late else self._not_again(again)
            if failed:
                return replace(self._answer("skipped", ()), reason="another rank could not capture the step again")
            found = [one for one in self._first.differences(again) if not _is_of_ranks(one)]
            frozen = [one for one in found if one.what not in MAY_BE_CHANCE]
            if not ranks.any(bool(frozen)):
                frozen = self._replays.with_effect(found, self._first, again)
            if ranks.any(bool(frozen)) and self._first is not self._decisive:
                again.release()
                if not frozen:
                    return self._answer("pass", ())
                with ranks.alone():
                    return self._answer("fail", *self.explained(frozen, start, seed))
            if self._first is self._decisive:
                unlike, self._first, self._seed = frozen, again, seed
            else:
                again.release()
            ineffective = {**{_key(one): one for one in found}, **ineffective}
        if unlike:
            with ranks.alone():
                return self._answer("fail", unlike, *self._explained_by_constants(unlike))
        with ranks.alone():
            chance = self._chance() if ineffective else set()
        return self._answer("pass", [one for key, one in ineffective.items() if key not in chance])

    def _answer(
        self,
        status: ProbeStatus,
        found: Sequence[Difference],
        causes: Sequence[Cause] = (),
        elsewhere: str | None = None,
    ) -> Twin:
        return Twin(
            status,
            captures=self._captures,
            # If the driver does not show some nodes, the graphs cannot be called equal.
            agree=status == "pass" and not found and not self._opaque,
            differences=tuple(found[:_MOST_REPORTED]),
            causes=tuple(one.path for one in causes),
            elsewhere=elsewhere,
            changes=tuple(causes),
        )

    def _is_out_of_room(self) -> bool:
        """Return whether the step now fails without a capture too, as it does when all rows of a cache are used."""
        if self._session.ranks.size > 1:
            return False  # the other ranks would not take part in the collectives of this step
        try:
            with self._session.device.capture_stream():
                self._session.step()
        except TargetError as error:
            self._eager_error = error.line
        return self._eager_error is not None

    def _not_again(self, failure: CaptureFailure) -> Twin:
        """Return the probe for a failed second capture. The failure says nothing about the capture if memory is short,
        or if the step fails without a capture too."""
        why = f"a second capture failed: {failure.type}: {failure.message}"
        if "out of memory" in failure.message.lower() or failure.type == "OutOfMemoryError":
            return replace(self._answer("skipped", ()), reason=why)
        if self._eager_error is None:
            return replace(self._answer("fail", ()), reason=why, first_error=failure)
        why = f"{why}; without a capture, the step fails too: {self._eager_error}"
        return replace(self._answer("skipped", ()), reason=why, first_error=failure)

    def record(self, seed: int, traced: bool = False) -> Recording | CaptureFailure:
        self._session.seed(seed)
        self._captures += 1
        with uncollected():
            return self._session.record(traced)

    def explained(self, found: list[Difference], start: PreCaptureState, seed: int) -> Explained:
        """Return the differences with their places, and their causes. The causes are changes of state; if none is
        found, a hint says where to look."""
        session = self._session
        session.channel.phase("find what changed")
        start.bindings.put_back()
        traced = self.record(seed, traced=True)
        if isinstance(traced, CaptureFailure):
            return found, [], None
        placed = {_key(one): one for one in self._first.differences(traced)}
        traced.release()
        at = [placed.get(_key(one), one) for one in found]
        found = [replace(one, op=of.op, frames=of.frames, span=of.span) for one, of in zip(found, at, strict=True)]
        chance = self._chance()
        decided = [one for one in found if _key(one) not in chance]
        if not decided:
            return self._outside_bindings(found, start, seed)
        # Unwritten bytes differ at random. A difference caused by state appears each time that this state is put back.
        always = self._differing(lambda: None, start, seed)
        decided = [one for one in decided if always is None or _key(one) in always] or decided
        keys = {_key(one) for one in decided}
        if self._gone(keys, lambda: None, start, self._seed):
            return decided, [], "host-random"
        changes = changes_between(self._before, start)[:_MOST_TRIALS]
        causes = [change for change in changes if self._gone(keys, partial(self._put_back, change, start), start, seed)]
        if causes:
            return decided, causes, None
        if (self._differing(lambda: None, self._before, seed) or set()) & keys:
            return decided, [], "host-random"  # random draws also change state, for example the order of a list
        # No single change is the cause: two buffers that swap, for example, can only be put back together. So report
        # all changes of the kind that the difference suggests.
        likely = "tensor" if any(one.what == "address" for one in decided) else "attribute"
        return decided, [change for change in changes if change.kind == likely][:_MOST_NAMED] or changes[:1], None

    def _explained_by_constants(self, unlike: Sequence[Difference]) -> tuple[list[Cause], str | None]:
        """Return the constants that cause the difference: with their values from the decisive capture, the step gives
        the same graph again."""
        self._first = self._decisive
        start, keys = PreCaptureState(self._session), {_key(one) for one in unlike}
        if self._gone(keys, lambda: None, start, CAPTURE_SEED):
            return [], "host-random"
        now = start.reach.constants()
        changed = [path for path in self._constants if path in now and path in start.reach.owners]
        causes = []
        for path in [path for path in changed if now[path][0] != self._constants[path][0]][:_MOST_TRIALS]:
            text, value = self._constants[path]
            if self._gone(keys, partial(put_back_host, start.reach, path, value), start, CAPTURE_SEED):
                causes.append(Cause("attribute", path, text, now[path][0]))
        causes = causes or self._rebound_by_refresh(keys)
        return causes, None if causes else "elsewhere"

    def _rebound_by_refresh(self, keys: set[Key]) -> list[Cause]:
        """Return tensors that the refresh rebinds, if captures before and after a call of the refresh differ in one of
        `keys`."""
        session = self._session
        if session.subject.refresh is None:
            return []
        before, places = self.record(CAPTURE_SEED), reachable_state(session.subject).places()
        try:
            session.put_inputs(1)
        except TargetError:
            return []
        rebound = moved_tensors(places, reachable_state(session.subject).places())[:_MOST_NAMED]
        after = self.record(CAPTURE_SEED) if rebound else None
        if isinstance(before, CaptureFailure) or isinstance(after, CaptureFailure) or after is None:
            return []
        if keys.isdisjoint(_key(one) for one in before.differences(after)):
            return []
        lines = lines_that_rebind(session, rebound, 2)
        return [Cause("input", path, None, None, frames) for path, frames in zip(rebound, lines, strict=True)]

    def _chance(self) -> set[Key]:
        """Return the differences between captures from the same state and seed, such as unwritten bytes or a clock."""
        return self._differing(lambda: None, self._before, self._seed) or set()

    def _outside_bindings(self, found: list[Difference], start: PreCaptureState, seed: int) -> Explained:
        """Explain differences that remain after the bindings were put back. A possible cause is a tensor that was given
        other memory. If there is no such tensor, the cause is a clock or the like."""
        swapped = [change for change in changes_between(self._before, start) if change.kind == "tensor"][:_MOST_NAMED]
        for one in [one for one in found if one.what == "address"][:_MOST_NAMED]:
            key = {_key(one)}
            causes = [change for change in swapped if self._gone(key, partial(self._swap, change, start), start, seed)]
            if causes:
                return [one], causes, None
        return found, [], "elsewhere"

    def _swap(self, change: Cause, start: PreCaptureState) -> None:
        """Give a tensor object its old memory back."""
        with outside_modes():
            start.reach.tensors[change.path].data = self._before.views[change.path]

    def _put_back(self, change: Cause, start: PreCaptureState) -> None:
        """Undo only this change: give this piece of state the value that it had before the first capture."""
        earlier = self._before.reach
        if change.kind == "attribute":
            put_back_host(start.reach, change.path, earlier.values[change.path])
        elif change.kind == "tensor":
            put_back_host(start.reach, change.path, earlier.tensors[change.path])
        else:
            self._before.bindings.put_back_container(change.path)

    def _gone(self, keys: set[Key], change: Callable[[], None], start: PreCaptureState, seed: int) -> bool:
        """Return whether these differences disappear if `change` is applied before another capture."""
        left = self._differing(change, start, seed)
        return left is not None and not left & keys

    def _differing(self, change: Callable[[], None], start: PreCaptureState, seed: int) -> set[Key] | None:
        """Capture from `start`, with `change` applied, and return the differences from the first capture. Return None
        if this is not possible."""
        start.bindings.put_back()
        try:
            change()
        except (StateError, RuntimeError):  # a container refuses the change, so this piece of state cannot be tried
            return None
        again = self.record(seed)
        if isinstance(again, CaptureFailure):
            return None
        keys = {_key(one) for one in self._first.differences(again)}
        again.release()
        return keys


def _run_steps(session: Session) -> bool:
    """Run further steps, and return whether they ran and succeeded. State on the device is put back after each step, so
    that positions do not run out of their buffers. If there is a refresh, nothing runs here, because its rounds already
    compare the values of as many steps."""
    if session.subject.refresh is not None or session.ranks.size > 1:
        return False
    session.channel.phase("further steps before a last capture")
    device = session.device
    alive = {path: one for path, one in reachable_state(session.subject).tensors.items() if device.is_on_device(one)}
    time_left, before = TimeLeft(1.0, 3.0), device.digests(alive)
    try:
        with device.capture_stream():
            session.seed(_OLDER_SEED)
            session.step()
            after = device.digests(alive)
            put_back = copies_of(device, {path: alive[path] for path in alive if before[path] != after[path]})
            for number in range(1, _OLDER):
                if time_left.is_over(number):
                    break
                session.seed(_OLDER_SEED + number)
                session.step()
                for path, values in put_back.items():
                    device.store(alive[path], values)
    except TargetError:
        return False
    return True


def _is_of_ranks(one: Difference) -> bool:
    """Return whether the difference is in NCCL's arguments, which contain a count that another rank may change."""
    return one.op.startswith("nccl") and one.what in MAY_BE_CHANCE


Key = tuple[int, str, int]


def _key(one: Difference) -> Key:
    return one.node, one.what, one.argument


@contextmanager
def uncollected() -> Iterator[None]:
    """Stop garbage collection in this block. Blocks that are freed in the middle of a capture would change the
    capture's pool."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
