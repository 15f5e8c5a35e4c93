"""Runs one further step for `horizon.py`, and compares its operations with those of the recorded step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch

from graphsafe.capture.child.compare import difference
from graphsafe.capture.child.lines.files_read import FilesSeen
from graphsafe.capture.child.lines.operations import Operation, OperationsSeen, Unnamed, address_of
from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import inputs_of, reachable_state, tensors_kept_by
from graphsafe.capture.child.state.generators import share_state
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.shared.frames import user_frames
from graphsafe.capture.shared.places import at_line, path_of
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.horizon import Aspect, Departure, Under

EARLY = 3
"""In this many first steps, changes of numbers and of memory are ignored. Twin captures cover such changes, and also
check whether they have an effect."""
_SEED = 50_000
_MOST_BYTES = 64 * 2**20
"Host memory from which a step copies is compared only up to this size in bytes. Larger memory holds weights."
Place = tuple[tuple[CallSite, ...], "Span | None"]
_LEFT_ALONE, _WRITTEN = "host memory that the step leaves as it is", "host memory that the step itself writes"
"""The words with which a report describes host memory that differs: for the recorded step, and for the further step. A
replay copies from such memory, but does not run the Python code that writes it."""


class StepAhead:
    """The recorded step, and a further step. All steps put the same device state back first."""

    def __init__(self, session: Session, is_excluded: Callable[[], bool]) -> None:
        self.session = session
        self._is_excluded = is_excluded
        self._alive: dict[str, torch.Tensor] = {}
        "The tensors on the device that the step reaches."
        self._kept: dict[str, torch.Tensor] = {}
        "These tensors are kept alive, so that no other tensor gets their addresses."
        self._lasting: dict[int, str] = {}
        self._read_state()
        self._expected: list[tuple[Operation, Place]] = []
        self.writers: dict[str, tuple[CallSite, ...]] = {}
        "Path of state -> the line of the recorded step that wrote this state last."
        self._used: set[str] = set()
        "The paths of the state that operations of the recorded step use."
        self._found: list[str] = []
        "Paths of the tensors on the device that an earlier step left, and that the refresh has not replaced."
        self._may_vary: set[int] = set()
        "Indices of operations whose numbers or memory changed in the first steps."
        self._at = 0
        self.departure: Departure | None = None
        self._path: list[Operation] = []
        "The operations of the current step."
        self._paths: dict[tuple[Operation, ...], Departure] = {}
        "A path of a further step, if it is not the captured one -> its first departure from the captured path."
        self.number = 0
        self.under: Under = "further steps"
        self.is_prepared = False
        "Whether the refresh has already prepared the next step."
        self._put_back: dict[str, torch.Tensor] = {}
        self.given: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        "Path -> a host tensor, and the values that are put into it before a step."
        given = inputs_of(session.subject) if session.subject.refresh is not None else {}
        self.host_inputs = {path: one.detach().clone() for path, one in session.on_host(given).items()}
        "The first values of the arguments on the host, if there is a refresh."
        self._unnamed = Unnamed()
        self._random_source = session.device.random_source()
        "The random state that a capture registers."
        self.host_written: list[torch.Tensor] = []
        "Host memory that device operations of the last step wrote."
        self.files = FilesSeen()
        self._seen: OperationsSeen | None = None
        "The operations of the current step."
        self._sources: dict[int, tuple[torch.Tensor, str, Place]] = {}
        "Address -> host memory that the recorded step copied to the device, with the operation and its place."

    def _read_state(self) -> None:
        reach = reachable_state(self.session.subject)
        cached = {
            f"{path}[{at}]": tensor
            for path, (cache, _) in reach.caches.items()
            for at, tensor in enumerate(tensors_kept_by(cache))
        }
        device = self.session.device
        with outside_modes():
            self._alive = {path: one.detach() for path, one in reach.tensors.items() if device.is_on_device(one)}
            self._kept = {**reach.tensors, **cached}
            # of several paths to the same memory, the first one is its name
            self._lasting = {address_of(tensor): path for path, tensor in reversed(self._kept.items())}
        self._lasting.pop(0, None)

    def one_more_step(self) -> bool:
        """Run one more step, and return whether it succeeds. If it fails, a difference before the error proves nothing:
        values that were changed for this step may be illegal."""
        self.number += 1
        try:
            self._compared_step()
        except TargetError:
            self.departure = None
            return False
        return True

    def departs(self) -> bool:
        """Return whether the current step takes a path that no further step took before. A departure to a known path
        is forgotten."""
        return self.departure is not None and not self.is_known_path()

    def is_known_path(self) -> bool:
        """Return whether a further step took the current step's path before. The departure is then forgotten."""
        if tuple(self._path) not in self._paths:
            return False
        self.departure = None
        return True

    def _compared_step(self) -> None:
        for path, values in self._put_back.items():
            self.session.device.store(self._alive[path], values)
        self._at, self._path = 0, []
        found = self._step(self._compare)
        if self.departure is None and self._at < len(self._expected):
            missing, place = self._expected[self._at]
            self._depart("count", missing.name, f"{len(self._expected)} operations", f"{self._at} operations", place)
        for address, (source, op, place) in self._sources.items():
            if self.departure is None and not difference(found[address], source).equal:
                self._depart("memory", op, _LEFT_ALONE, _WRITTEN, place)

    def _step(self, sink: Callable[[Operation], None]) -> Mapping[int, torch.Tensor]:
        """Run a step. Return the values that host memory had before the step, for memory from which the step copies."""
        session = self.session
        # Without a refresh, the inputs of round 1 are used each time, because other values of inputs would not change
        # the path of a step here. A refresh may act differently in a later round.
        round_of_inputs = 1 if session.subject.refresh is None else max(self.number, 1)
        if not self.is_prepared:
            session.put_inputs(round_of_inputs, seed=_SEED + self.number)
        for tensor, values in self.given.values():
            session.device.store(tensor, values)
        if not self.number:
            self._found = self._found_now()
        with outside_modes():
            found = {address: source.clone() for address, (source, *_) in self._sources.items()}
        is_same = share_state(self._random_source, session.device.random_source())
        source = "the default generator's state" if is_same else "another state of the default generator"
        operations = OperationsSeen(sink, self._lasting, self.session.is_on_gpu, source, self._unnamed)
        with self.files.step(), operations as seen:
            self._seen = seen
            session.path_step()
        self.host_written = list(seen.host_written.values())
        for address in seen.host_written:
            self._sources.pop(address, None)  # the device writes this memory, so a replay writes it too
        return found

    def _record(self, operation: Operation) -> None:
        if self._is_excluded():
            return
        place = user_frames()
        self._expected.append((operation, place))
        assert self._seen is not None
        self.writers.update(dict.fromkeys(self._seen.state_written, place[0]))
        self._used.update(path for path in map(path_of, operation.memory) if path is not None)
        copied = self._seen.copied
        if copied is not None and copied.nbytes <= _MOST_BYTES:
            self._sources.setdefault(copied.data_ptr(), (copied, operation.name, place))

    def _found_now(self) -> list[str]:
        """Return the paths of the tensors that an earlier step left. Tensors that the refresh has replaced are left
        out."""
        with outside_modes():
            now = {path: address_of(one) for path, one in reachable_state(self.session.subject).tensors.items()}
            return [path for path, one in self._alive.items() if now.get(path) == address_of(one)]

    def unread(self) -> list[str]:
        """Return the paths of the tensors on the device that existed before the recorded step, and that this step did
        not use. A gradient that a refresh may use is included only if the step changes its parameter."""
        refreshed = self.session.subject.refresh is not None
        return [
            path
            for path in self._found
            if self._lasting.get(address_of(self._alive[path])) not in self._used
            and not (refreshed and path.endswith(".grad") and path.removesuffix(".grad") not in self.writers)
        ]

    def _compare(self, operation: Operation) -> None:
        if self._is_excluded():
            return
        at, self._at = self._at, self._at + 1
        self._path.append(replace(operation, numbers=(), memory=()) if at in self._may_vary else operation)
        if self.departure is not None:
            return
        if at >= len(self._expected):
            some, more = f"{len(self._expected)} operations", "more operations"
            self._depart("count", operation.name, some, more, user_frames())
            return
        expected, (expected_frames, _) = self._expected[at]
        aspect = expected.differs(operation)
        if aspect is None:
            return
        if aspect in ("number", "memory"):
            if self.number <= EARLY and self.under == "further steps":
                self._may_vary.add(at)
            if at in self._may_vary:
                return
        before, after, place = expected.text(aspect, operation), operation.text(aspect, expected), user_frames()
        if aspect in ("shape", "number") and at_line(expected_frames) != at_line(place[0]):
            # Another branch runs the same operation. Its sizes and numbers are not those of the captured operation.
            aspect, name = "operation", operation.name
            before, after = f"{name}{at_line(expected_frames)}", f"{name}{at_line(place[0])}"
        self._depart(aspect, operation.name, before, after, place)

    def _depart(self, what: Aspect, op: str, before: str, after: str, place: Place) -> None:
        self.departure = Departure(self.number, self.under, what, op, before, after, *place)
