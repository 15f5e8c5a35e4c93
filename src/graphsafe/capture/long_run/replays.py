"""Many replays: what grows, what slows down, what drifts from eager steps, and what fails late.

The values of tensors that a step changes are put back between, because a cache must not run over; what names are bound
to is not, because that is where a refresh leaks. At ten points memory is measured, garbage collected, all memory that
was freed is overwritten, so that a graph that still reads it shows, and the replay compared with an eager step. Where
the inputs come back in turn, the outputs of each replay are compared with those that the same inputs gave before.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphsafe.capture.compare import INCOMPARABLE, Spread, difference
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.lines.frames import absolute, function_name, is_user_file
from graphsafe.capture.memory_use import memory_held
from graphsafe.capture.session import REPLAYS, Session, host_values, load_values
from graphsafe.capture.state import Reach, Snapshot, Undo, copies_of, inputs_of, reach_of
from graphsafe.capture.state.objects import code_of
from graphsafe.capture.state.snapshot import Bindings
from graphsafe.capture.targets import TargetError, describe

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.device.protocol import Recording

_POINTS = 10
_TIMED = 5
_WATCHED = 20
"Replays in which the lines are found that keep memory."
_MOST_SURPRISES = 50
"Replays that give something else than before and are held against an eager step; a step with float atomics has many."
_STATM = "/proc/self/statm"


def long_run(session: Session, recording: Recording, replays: int) -> dict[str, Any]:
    session.load_sets()
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
            run.failure = {"replay": number, "right_until": run.right_until, "message": describe(error)}
            break
    else:
        run.look_for_lines(replays)
    return run.as_data(replays)


class _LongRun:
    def __init__(self, session: Session, recording: Recording) -> None:
        self.failure: dict[str, Any] | None = None
        self.stopped: str | None = None
        "What of the user's code failed, so that the run ended before its time."
        self.right_until = 0
        "The last replay that is known to have ended well: the device works behind the host."
        self._session = session
        self._recording = recording
        reference = session.channel.folder / "reference.pt"
        reported: dict[str, Any] = load_values(reference) if reference.exists() else {}
        self._noise, self._rounding = (
            Spread.from_json(reported[name]) if reported.get(name) else Spread() for name in ("noise", "rounding")
        )
        self._keep_at_hand()
        self._undo = self._what_changes()
        self._begun = time.perf_counter()
        self._since = 0
        self._drifts: dict[str, dict[str, Any]] = {}
        self._points: list[dict[str, Any]] = []
        self._compared = 0
        self._surprises = 0
        self._given: dict[int, dict[str, str]] = {}
        "By set of inputs: digests of the outputs."
        self._places = {path: tensor.data_ptr() for path, tensor in self._state().items()}
        self._keeping: list[dict[str, Any]] = []
        "Lines that keep memory of the device, and how much a replay."
        self._moved: dict[str, int] = {}
        "State that lies elsewhere now, and the replay after which that was seen."

    def _keep_at_hand(self) -> None:
        """Generators and inputs, which are needed for each replay."""
        session = self._session
        reach = reach_of(session.subject)
        session.generators = Reach(generators=reach.generators, host_generators=reach.host_generators)
        if not self._comes_back:
            return
        inputs = inputs_of(session.subject)
        copies = []
        for k, values in enumerate(session.sets, start=1):
            session.put_inputs(k)
            copies.append(dict(zip(values, copies_of(session.device, [inputs[path] for path in values]), strict=True)))
        session.sets = tuple(copies)

    def _what_changes(self) -> Undo:
        """What a replay writes."""
        session = self._session
        session.put_inputs(1)
        state = Snapshot(session.device, session.subject, clear_caches=False)
        self._recording.replay()
        session.device.synchronize()
        return Undo(session.device, state)

    def _state(self) -> dict[str, torch.Tensor]:
        inputs = inputs_of(self._session.subject)
        return {path: one for path, one in reach_of(self._session.subject).tensors.items() if path not in inputs}

    @property
    def _comes_back(self) -> bool:
        """Whether inputs come back in turn."""
        return self._session.subject.refresh is None

    @property
    def _compares_each(self) -> bool:
        """Whether each replay is compared. Several ranks would have to ask each other every time whether one of them
        wants to make an eager step."""
        return self._comes_back and self._session.ranks.size == 1

    def _inputs_of(self, number: int) -> int:
        return (number - 1) % REPLAYS + 1 if self._comes_back else number

    def replay(self, number: int) -> None:
        self._undo.undo()
        self._session.put_inputs(self._inputs_of(number))
        self._recording.replay()
        if self._compares_each and self._surprises < _MOST_SURPRISES:
            self._compare_with_before(number)

    def _compare_with_before(self, number: int) -> None:
        """Something else than before is wrong if it is not what an eager step gives either."""
        session, k = self._session, self._inputs_of(number)
        outputs = session.outputs_of(self._recording.outputs).tensors
        digests = session.device.digests(outputs)
        before = self._given.setdefault(k, digests)
        self.right_until = number
        self._compared += 1
        if digests != before:
            self._surprises += 1
            self._given[k] = digests
            self._compare(number, host_values(session.device, outputs), self._eager(number))

    def look(self, number: int) -> None:
        session, device = self._session, self._session.device
        device.synchronize()
        step_ms = (time.perf_counter() - self._begun) * 1000 / (number - self._since)
        gc.collect()
        memory = device.memory()
        times = [device.time_ms(self._recording.replay, 1) for _ in range(_TIMED)]
        known = [time for time in times if time is not None]
        self._points.append(
            {
                "replay": number,
                "device_bytes": memory.allocated,
                "pool_bytes": self._recording.pool_bytes(),
                "host_bytes": _host_bytes(),
                "ms": statistics.median(known) if known else None,
                "step_ms": step_ms if known else None,
            }
        )
        for path, tensor in self._state().items():
            if tensor.data_ptr() != self._places.get(path, tensor.data_ptr()):
                self._moved.setdefault(path, number)
        self._undo.undo()
        session.seed(self._inputs_of(number))
        device.reuse_freed()
        self._recording.replay()
        device.synchronize()
        ours = host_values(device, session.outputs_of(self._recording.outputs).tensors)
        self._compare(number, ours, self._eager(number))
        self._compared += 0 if self._compares_each else 1
        self.right_until = number
        self._begun, self._since = time.perf_counter(), number

    def look_for_lines(self, replays: int) -> None:
        """If there is more memory in use than at first: which lines keep what they took, in a few replays more."""
        first, last = (self._points[at]["device_bytes"] for at in (0, -1))
        if first is None or last <= first:
            return
        try:
            with self._session.device.watch_memory() as events:
                for number in range(replays + 1, replays + 1 + _WATCHED):
                    self.replay(number)
        except Exception:  # a refresh may know of no more replays than were asked for
            return
        lines = sorted(memory_held(events)["lines"], key=lambda line: -int(line["kept"]))
        self._keeping = [
            {"frame": line["frame"], "bytes": round(line["kept"] / _WATCHED)} for line in lines if line["kept"]
        ]

    def _eager(self, number: int) -> dict[str, torch.Tensor]:
        """What a step gives in place of this replay."""
        session = self._session
        bindings = Bindings(reach_of(session.subject), clear_caches=False)
        self._undo.undo()
        session.seed(self._inputs_of(number))
        outputs = host_values(session.device, session.outputs_of(session.path_step()).tensors)
        bindings.put_back()
        return outputs

    def _compare(self, number: int, ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> None:
        with outside_modes():
            for name, value in theirs.items():
                apart = difference(ours[name], value) if name in ours else INCOMPARABLE
                bounds = [spread.bound(name, value) for spread in (self._noise, self._rounding)]
                bound = None if None in bounds else max(bound or 0.0 for bound in bounds)
                if apart.is_beyond(bound):
                    first = {"output": name, "replay": number, "max_abs": apart.largest, "floor": bound}
                    self._drifts.setdefault(name, first)

    def as_data(self, replays: int) -> dict[str, Any]:
        refresh = self._session.subject.refresh
        code = None if refresh is None else code_of(refresh)
        entry = None
        if code is not None and is_user_file(code.co_filename):
            entry = {"path": absolute(code.co_filename), "line": code.co_firstlineno, "function": function_name(code)}
        return {
            "replays": replays,
            "compared": self._compared,
            "points": self._points,
            "keeping": self._keeping,
            "moved": [{"path": path, "replay": replay} for path, replay in self._moved.items()],
            "drifts": list(self._drifts.values()),
            "failure": self.failure,
            "stopped": self.stopped,
            "refresh": entry,
        }


def _host_bytes() -> int | None:
    """What this process holds of the host's memory, where the system tells."""
    try:
        with open(_STATM, encoding="ascii") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
