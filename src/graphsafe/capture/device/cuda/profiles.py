"""Profiles a step with `torch.profiler`, and profiles it again with marks around the lines of the user's code."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from graphsafe.capture.device.cuda.compiler_import import profiling
from graphsafe.capture.device.cuda.kineto import LINE, STEP, Event, timeline_of
from graphsafe.capture.processes.originals import open_file
from graphsafe.capture.shared.frames import absolute, is_user_file
from graphsafe.capture.shared.replaced import tracing
from graphsafe.report.probes.timeline import Timeline

_ON_DEVICE = (ProfilerActivity.CPU, ProfilerActivity.CUDA)


def profiled_timeline(step: Callable[[], Any], wait: Callable[[], None], folder: Path) -> Timeline:
    """Run a step twice and return its timeline. Times are from the first run, lines from the second."""
    plain = profiled(step, wait, folder)
    lines = Lines()
    named = profiled(lambda: lines.run(step), wait, folder)
    return timeline_of(plain, named, lines.places)


def profiled(
    step: Callable[[], Any], wait: Callable[[], None], folder: Path, activities: Sequence[ProfilerActivity] = _ON_DEVICE
) -> list[Event]:
    """Run a step and return the profiler's events. `wait` is a function that waits for the device."""
    file = folder / "profile.json"
    wait()
    with profiling(activities) as profiler:
        with _mark(STEP):
            step()
        wait()
    profiler.export_chrome_trace(str(file))
    with open_file(file, "rb") as written:
        events: list[Event] = json.loads(written.read(), strict=False)["traceEvents"]
    file.unlink()
    return events


def _mark(name: str) -> Any:
    """Return a context manager that the profiler records under `name`. The context manager runs no operation, so modes
    do not see it."""
    return torch._C._profiler._RecordFunctionFast(name)


class Lines:
    """Marks each line of the user's code while the line runs, in all threads."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        "Line, such as `/folder/cache.py:41` -> the line's index in the name of its mark."

    @property
    def places(self) -> list[str]:
        return list(self._numbers)

    def run(self, step: Callable[[], Any]) -> Any:
        """Run a step with its lines marked."""
        with tracing(self._called):
            return step()

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not is_user_file(frame.f_code.co_filename):
            return None
        path = absolute(frame.f_code.co_filename)
        running: Any = None

        def local(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal running
            if running is not None:
                running.__exit__(None, None, None)
                running = None
            if event == "line":
                number = self._numbers.setdefault(f"{path}:{frame.f_lineno}", len(self._numbers))
                running = _mark(f"{LINE}{number}")
                running.__enter__()
            return local

        return local
