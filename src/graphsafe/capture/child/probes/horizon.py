"""Runs many more eager steps, to see whether Python still launches the operations that a capture fixed.

A counter, a schedule, an iterator or a clock may make Python decide differently a hundred steps later. Steps are
compared by their operations, with shapes and numbers. Computed values are not compared, so each step runs only once.
State on the device is put back after each step, so that positions do not run out of their buffers. Host state keeps
changing.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace

import torch

from graphsafe.capture.child.compare import difference
from graphsafe.capture.child.lines.clocks import A_DAY, LATER, clocks_ahead
from graphsafe.capture.child.lines.files_read import FilesSeen
from graphsafe.capture.child.lines.operations import NUMBER, Operation, OperationsSeen, Unnamed, address_of
from graphsafe.capture.child.lines.paths import calls_of, name_of_path
from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import (
    Bindings,
    StateError,
    copies_of,
    generators_of,
    inputs_of,
    reach_with_refresh,
    reachable_state,
    tensors_kept_by,
    with_objects,
)
from graphsafe.capture.child.state.generators import share_state
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.child.time_left import TimeLeft, power_of_two
from graphsafe.capture.child.vary import generator_for, proposals
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.horizon import Aspect, Departure, Horizon, Under

STEPS, LATER_STEPS = 256, 1024
"The number of further steps, if time allows: the larger one if a refresh or host state may decide later."
_CPU_SECONDS, _SECONDS = 3.0, 20.0
"No further step starts after this many seconds of CPU time, or this many seconds in total; see `_go_on`."
_EARLY = 3
"""In this many first steps, changed numbers and memory are ignored. Twin captures cover them, and also check whether
such a change has an effect."""
_SEED = 50_000
_CLOCK_STEPS = 2
_LATER_CLOCKS = (1.0, 3.0)
"Seconds of CPU time, and of total time, after which the clocks are set no further ahead."
_MOST_PATHS = 64
"At most this many other paths of further steps are told apart. A step with more of them depends on a changing number."
_MOST_PROPOSALS = 8
_MOST_BYTES = 64 * 2**20
"The largest size, in bytes, of host memory that is compared as the source of a copy. Larger memory holds weights."
Place = tuple[tuple[CallSite, ...], "Span | None"]
_LEFT_ALONE, _WRITTEN = "host memory that the step leaves as it is", "host memory that the step itself writes"
"""How a difference in host memory is described, before and after. A replay copies from such memory, but does not run
the Python code that writes it."""
_NOT_FINITE = frozenset(("nan", "inf", "-inf"))


def run_further_steps(session: Session, is_excluded: Callable[[], bool] = lambda: False, most: int = STEPS) -> Horizon:
    """Run up to `most` further steps from a warm state, along the path of captures if the step can take that path. The
    session cannot be used afterwards. Operations that run while `is_excluded()` is true are not compared."""
    try:
        ahead = _Ahead(session, is_excluded, most)
        return replace(ahead.run(), files_read=ahead.files.shown())
    except TargetError as error:
        return Horizon(reason=f"the step cannot be run once more: {error.line}")


class _Ahead:
    def __init__(self, session: Session, is_excluded: Callable[[], bool], most: int) -> None:
        self._session = session
        self._most = most
        self._is_excluded = is_excluded
        reach = reachable_state(session.subject)
        cached = {
            f"{path}[{at}]": tensor
            for path, (cache, _) in reach.caches.items()
            for at, tensor in enumerate(tensors_kept_by(cache))
        }
        with outside_modes():
            self._alive = self._on_device(reach.tensors)
            self._kept = {**reach.tensors, **cached}
            "These tensors are kept alive, so that no other tensor gets their addresses."
            self._lasting = _addresses(self._kept)
        self._expected: list[tuple[Operation, Place]] = []
        self._may_vary: set[int] = set()
        "Indices of operations whose numbers or memory changed in the first steps."
        self._at = 0
        self._departure: Departure | None = None
        self._path: list[Operation] = []
        "The operations of the current step."
        self._paths: dict[tuple[Operation, ...], Departure] = {}
        "Another path that a further step took -> its first departure."
        self._number = 0
        self._under: Under = "further steps"
        self._put_back: dict[str, torch.Tensor] = {}
        self._given: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        "Path -> a host tensor, and the values that are put into it before a step."
        given = inputs_of(session.subject) if session.subject.refresh is not None else {}
        self._host_inputs = {path: one.detach().clone() for path, one in given.items() if not session.is_on_gpu(one)}
        "The first values of the arguments on the host, if there is a refresh."
        self._unnamed = Unnamed()
        self._random_source = session.device.random_source()
        "The random state that a capture registers."
        self._host_written: list[torch.Tensor] = []
        "Host memory that device operations of the last step wrote."
        self.files = FilesSeen()
        self._seen: OperationsSeen | None = None
        "The operations of the current step."
        self._sources: dict[int, tuple[torch.Tensor, str, Place]] = {}
        "Address -> host memory that the recorded step copied to the device, with the operation and its place."

    def _on_device(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        device = self._session.device
        return {path: one.detach() for path, one in tensors.items() if device.is_on_device(one)}

    def run(self) -> Horizon:
        session = self._session
        session.channel.phase("steps ahead")
        session.capture_path = True
        try:
            before = session.device.digests(self._alive)
            try:
                self._step(self._record)
            except TargetError:
                session.capture_path = False
                self._expected.clear()
                self._unnamed = Unnamed()
                self._step(self._record)
            self._unnamed.is_recording = False
            session.generators = generators_of(session.subject)
            after = session.device.digests(self._alive)
            changed = [path for path, digest in after.items() if before[path] != digest]
            self._put_back = copies_of(session.device, {path: self._alive[path] for path in changed})
            return self._go_on()
        finally:
            session.capture_path = False

    def _go_on(self) -> Horizon:
        session = self._session
        time_left, held, reason = TimeLeft(_CPU_SECONDS, _SECONDS), 0, None
        early = Bindings(reach_with_refresh(session.subject), clear_caches=False)
        for number in range(1, self._most + 1):
            if session.ranks.any(time_left.is_over(held)):
                break
            self._number = number
            try:
                self._compared_step()
            except TargetError as error:
                # An index on the host ran beyond its buffer. A real program would have reset it earlier.
                self._departure, reason = None, f"step {number} ahead failed: {error.line}"
                if session.ranks.size > 1 or not self._works_from(early):
                    return self._ended(held, reason)
                break
            if session.ranks.any(self._departure is not None) and not self._takes_other_path():
                return self._departed(held)
            held = number
        self._under = "clocks a day later"
        with clocks_ahead(A_DAY) as shift:
            for at, shift.seconds in enumerate((*[A_DAY] * _CLOCK_STEPS, *LATER)):
                if session.ranks.any(at >= _CLOCK_STEPS and shift.is_over(*_LATER_CLOCKS)):
                    break
                self._number += 1
                try:
                    self._compared_step()
                except TargetError:
                    self._departure = None
                if session.ranks.any(self._departure is not None) and not self._is_known_path():
                    return self._departed(held)
        if session.ranks.size == 1:
            self._change_files()
            self._change_host_values()
        if self._departure is not None:
            return self._departed(held)
        # The number of steps that fit into the time differs from run to run, but the report must not.
        return self._ended(power_of_two(held) if reason is None else held, reason)

    def _works_from(self, early: Bindings) -> bool:
        """Put the host's state back to that of the first steps, after a step that failed, so that clocks and values on
        the host can still be changed. Return whether this worked: the step then does what it did before."""
        if self._session.subject.refresh is not None:
            self._number = _EARLY  # the refresh may have come to the end of its data
        try:
            early.put_back()
            self._number += 1
            return self._works() and self._repeats()
        except (StateError, TargetError):
            return False
        finally:
            self._departure = None

    def _repeats(self) -> bool:
        self._compared_step()
        return self._departure is None

    def _takes_other_path(self) -> bool:
        """Return whether the current step only runs other operations than the captured step, so that rounds of the
        refresh can show whether it computes the same. A step that uses other memory cannot be tested so: the memory
        of the capture may be freed, and still hold the same values."""
        departure, session = self._departure, self._session
        if departure is None or departure.what == "memory" or not self._texts(self._path) <= self._known_texts:
            return False
        if session.subject.refresh is None or session.ranks.size > 1 or len(self._paths) >= _MOST_PATHS:
            return False
        self._paths.setdefault(tuple(self._path), departure)
        self._departure = None
        return True

    @functools.cached_property
    def _known_texts(self) -> Set[str]:
        return self._texts(operation for operation, _ in self._expected)

    def _texts(self, path: Iterable[Operation]) -> Set[str]:
        """Return the settings of kernels, the sources of random numbers and other texts among the arguments. The
        simulated device computes the same with other settings, so its rounds do not test them."""
        return {one for operation in path for one in operation.numbers if not NUMBER.match(one)}

    def _is_known_path(self) -> bool:
        """Return whether a further step took the current step's path before. The departure is then forgotten."""
        if tuple(self._path) not in self._paths:
            return False
        self._departure = None
        return True

    def _ended(self, held: int, reason: str | None = None) -> Horizon:
        paths, varying = self._other_paths(), tuple(sorted(self._may_vary))
        if not paths:
            return Horizon("pass", reason, steps=held)
        return Horizon("fail", reason, steps=paths[0].step - 1, departure=paths[0], paths=paths, varying=varying)

    def _other_paths(self) -> tuple[Departure, ...]:
        return tuple(
            replace(departure, path=name_of_path(calls_of(path, self._may_vary)))
            for path, departure in self._paths.items()
        )

    def _departed(self, held: int) -> Horizon:
        if self._departure is None:
            return Horizon("pass", "another rank's step differs from its capture, so no further steps run", steps=held)
        paths, varying = self._other_paths(), tuple(sorted(self._may_vary))
        first, last = (*paths, self._departure)[0], self._departure
        steps = min(held, first.step - 1)
        return Horizon("fail", steps=steps, departure=first, paths=paths, last=last, varying=varying)

    def _change_files(self) -> None:
        """Change what the step learns from files. Leave out the files that decide nothing. A step that fails has
        perhaps read a file that is not there."""
        for path, variations in self.files.variations():
            is_steady = True
            for varied in variations:
                self._number += 1
                try:
                    with varied():
                        self._compared_step()
                except TargetError:
                    is_steady = False
                is_steady = is_steady and (self._departure is None or self._is_known_path())
                self._departure = None
            if is_steady:
                self.files.leave_out(path)

    def _change_host_values(self) -> None:
        """Change inputs on the host, and host memory into which the step's device operations write."""
        self._change("other inputs on the host", self._unvaried_host_inputs())
        if self._departure is None:
            self._change("other values in host memory", {str(at): one for at, one in enumerate(self._host_written)})

    def _unvaried_host_inputs(self) -> dict[str, torch.Tensor]:
        """Return the inputs on the host. If there is a refresh, return only arguments that it has left as they were."""
        subject = self._session.subject
        # Objects of the user's own classes may hold settings of a request, so host tensors in them are changed too. A
        # refresh may count in such objects.
        found = with_objects(subject) if subject.refresh is None else inputs_of(subject)
        on_host = {path: one for path, one in found.items() if not self._session.is_on_gpu(one)}
        if subject.refresh is None:
            return on_host
        given = self._host_inputs
        return {path: one for path, one in on_host.items() if path in given and difference(one, given[path]).equal}

    def _change(self, under: Under, tensors: Mapping[str, torch.Tensor]) -> None:
        self._under = under
        for path, tensor in tensors.items():
            original = self._session.device.to_host(tensor)
            with outside_modes():
                generator = generator_for(path)
                proposed = list(itertools.islice(proposals(original, generator, far=True), _MOST_PROPOSALS))
            for new in proposed:
                self._number += 1
                self._given = {path: (tensor, new)}
                try:
                    self._compared_step()
                except TargetError:  # the new values were illegal, so a difference before the error proves nothing
                    self._departure = None
                    if not self._works():
                        return
                if self._departure is not None and self._is_known_path():
                    continue
                if self._departure is not None and self._departure.after in _NOT_FINITE:
                    self._departure = None  # these values were illegal too, for example shares of a sum that is zero
                if self._departure is not None:
                    return
            self._given = {}
            self._session.device.store(tensor, original)

    def _works(self) -> bool:
        """Return whether the device still works. After a failed assertion in a kernel it cannot be used any more."""
        try:
            self._session.device.synchronize()
        except RuntimeError:
            return False
        return True

    def _compared_step(self) -> None:
        for path, values in self._put_back.items():
            self._session.device.store(self._alive[path], values)
        self._at, self._path = 0, []
        found = self._step(self._compare)
        if self._departure is None and self._at < len(self._expected):
            missing, place = self._expected[self._at]
            self._depart("count", missing.name, f"{len(self._expected)} operations", f"{self._at} operations", place)
        for address, (source, op, place) in self._sources.items():
            if self._departure is None and not difference(found[address], source).equal:
                self._depart("memory", op, _LEFT_ALONE, _WRITTEN, place)

    def _step(self, sink: Callable[[Operation], None]) -> Mapping[int, torch.Tensor]:
        """Run a step. Return the values that the sources of its copies had before the step."""
        session = self._session
        # Without a refresh, the inputs of round 1 are used each time, since new values of inputs would decide nothing
        # here. A refresh may act differently in a later round.
        round_of_inputs = 1 if session.subject.refresh is None else max(self._number, 1)
        session.put_inputs(round_of_inputs, seed=_SEED + self._number)
        for tensor, values in self._given.values():
            session.device.store(tensor, values)
        with outside_modes():
            found = {address: source.clone() for address, (source, *_) in self._sources.items()}
        is_same = share_state(self._random_source, session.device.random_source())
        source = "the default generator's state" if is_same else "another state of the default generator"
        operations = OperationsSeen(sink, self._lasting, self._session.is_on_gpu, source, self._unnamed)
        with self.files.step(), operations as seen:
            self._seen = seen
            session.path_step()
        self._host_written = list(seen.host_written.values())
        for address in seen.host_written:
            self._sources.pop(address, None)  # the device writes this memory, so a replay writes it too
        return found

    def _record(self, operation: Operation) -> None:
        if self._is_excluded():
            return
        place = user_frames()
        self._expected.append((operation, place))
        copied = self._seen.copied if self._seen is not None else None
        if copied is not None and copied.nbytes <= _MOST_BYTES:
            self._sources.setdefault(copied.data_ptr(), (copied, operation.name, place))

    def _compare(self, operation: Operation) -> None:
        if self._is_excluded():
            return
        at, self._at = self._at, self._at + 1
        self._path.append(replace(operation, numbers=(), memory=()) if at in self._may_vary else operation)
        if self._departure is not None:
            return
        if at >= len(self._expected):
            some, more = f"{len(self._expected)} operations", "more operations"
            self._depart("count", operation.name, some, more, user_frames())
            return
        expected = self._expected[at][0]
        aspect = expected.differs(operation)
        if aspect is None:
            return
        if aspect in ("number", "memory"):
            if self._number <= _EARLY and self._under == "further steps":
                self._may_vary.add(at)
            if at in self._may_vary:
                return
        before, after = expected.text(aspect, operation), operation.text(aspect, expected)
        self._depart(aspect, operation.name, before, after, user_frames())

    def _depart(self, what: Aspect, op: str, before: str, after: str, place: Place) -> None:
        self._departure = Departure(self._number, self._under, what, op, before, after, *place)


def _addresses(tensors: Mapping[str, torch.Tensor]) -> dict[int, str]:
    found: dict[int, str] = {}
    for path, tensor in tensors.items():
        found.setdefault(address_of(tensor), path)
    found.pop(0, None)
    return found
