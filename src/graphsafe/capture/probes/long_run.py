"""Many replays: what grows, what drifts from eager steps, and what fails late.

The values of tensors that a step changes are put back between, because a cache must not run over; what names are bound
to is not, because that is where a refresh leaks. At ten points memory is measured, garbage collected, the allocator
stirred, so that memory which was freed and is still read shows, and the replay compared with an eager step.
"""

from __future__ import annotations

import gc
import os
import statistics
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphsafe.capture.compare import INCOMPARABLE, Spread, difference
from graphsafe.capture.lines.frames import absolute, function_name, is_user_file
from graphsafe.capture.session import REPLAYS, Session, host_values, load_values, outside_modes
from graphsafe.capture.state import Snapshot, reach_of
from graphsafe.capture.state.objects import code_of
from graphsafe.capture.state.snapshot import Bindings
from graphsafe.capture.targets import TargetError, describe

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.device.protocol import Recording

_POINTS = 10
_TIMED = 5
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
            run.failure = {"replay": number, "message": describe(error)}
            break
    return run.told(replays)


class _LongRun:
    def __init__(self, session: Session, recording: Recording) -> None:
        self.failure: dict[str, Any] | None = None
        self.stopped: str | None = None
        "What of the user's code failed, so that the run ended before its time."
        self._session = session
        self._recording = recording
        reference = session.channel.folder / "reference.pt"
        told: dict[str, Any] = load_values(reference) if reference.exists() else {}
        self._noise, self._rounding = (
            Spread.from_json(told[name]) if told.get(name) else Spread() for name in ("noise", "rounding")
        )
        self._changing = self._what_changes()
        self._drifts: dict[str, dict[str, Any]] = {}
        self._points: list[dict[str, Any]] = []

    def _what_changes(self) -> list[tuple[weakref.ref[torch.Tensor], torch.Tensor]]:
        """What a replay writes, and the values to put back. Held weakly: what the target drops has to be freed."""
        session = self._session
        session.put_inputs(1)
        state = Snapshot(session.device, session.subject, clear_caches=False)
        self._recording.replay()
        session.device.synchronize()
        changed = [path for path in state.changed() if path in state.values]
        state.put_back_values(changed)
        return [(weakref.ref(state.tensors[path]), state.values[path]) for path in changed]

    def _put_back(self) -> None:
        for reference, values in self._changing:
            tensor = reference()
            if tensor is not None:
                self._session.device.store(tensor, values)

    def _inputs_of(self, number: int) -> int:
        return number if self._session.subject.refresh is not None else (number - 1) % REPLAYS + 1

    def replay(self, number: int) -> None:
        self._put_back()
        self._session.put_inputs(self._inputs_of(number))
        self._recording.replay()

    def look(self, number: int) -> None:
        session, device = self._session, self._session.device
        device.synchronize()
        gc.collect()
        memory = device.memory()
        point = {"replay": number, "device_bytes": memory.allocated, "host_bytes": _host_bytes()}
        times = [device.time_ms(self._recording.replay, 1) for _ in range(_TIMED)]
        known = [time for time in times if time is not None]
        self._points.append({**point, "ms": statistics.median(known) if known else None})
        self._put_back()
        session.seed(self._inputs_of(number))
        device.reuse_freed()
        self._recording.replay()
        device.synchronize()
        ours = host_values(device, session.outputs_of(self._recording.outputs).tensors)
        bindings = Bindings(reach_of(session.subject), clear_caches=False)
        self._put_back()
        session.seed(self._inputs_of(number))
        theirs = host_values(device, session.outputs_of(session.path_step()).tensors)
        bindings.put_back()
        self._compare(number, ours, theirs)

    def _compare(self, number: int, ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> None:
        with outside_modes():
            for name, value in theirs.items():
                apart = difference(ours[name], value) if name in ours else INCOMPARABLE
                bounds = [spread.bound(name, value) for spread in (self._noise, self._rounding)]
                bound = None if None in bounds else max(bound or 0.0 for bound in bounds)
                if apart.is_beyond(bound):
                    first = {"output": name, "replay": number, "max_abs": apart.largest, "floor": bound}
                    self._drifts.setdefault(name, first)

    def told(self, replays: int) -> dict[str, Any]:
        refresh = self._session.subject.refresh
        code = None if refresh is None else code_of(refresh)
        entry = None
        if code is not None and is_user_file(code.co_filename):
            entry = {"path": absolute(code.co_filename), "line": code.co_firstlineno, "function": function_name(code)}
        return {
            "replays": replays,
            "points": self._points,
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
