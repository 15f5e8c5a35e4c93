"""Finds the line of the user's code that gives a piece of state another value or other memory. The state is read after
each line of this code. So the line is found even if it only calls a library that changes the state."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import FrameType
from typing import Any

import torch

from graphsafe.capture.child.state import ReachableState, held_at
from graphsafe.capture.child.state.values import WRITERS
from graphsafe.capture.device.structures import memory_key
from graphsafe.capture.shared.frames import call_site, is_user_file, user_frames, user_frames_now
from graphsafe.report.model import CallSite

_MOST_READ = 16
"At most this many paths are read after each line."
_MOST_LOOKS = 20_000
"If a step runs more lines than this, it is not watched to its end, and no line is found."


class ChangesSeen:
    """The lines that change the state at some paths. Paths that differ only in numbers, such as those of a model's
    layers, form a group. If there are too many paths, only the first groups are watched, and of each group only the
    first and the last path."""

    def __init__(self, reach: ReachableState, paths: Iterable[str]) -> None:
        self._reach = reach
        self._outer = {id(held): path for path, held in reach.sized.items() if path in reach.holders}
        self._alike: dict[str, list[str]] = {}
        "Path without its numbers -> the paths that are read."
        known = [path for path in paths if path in reach.owners]
        for path in known:
            self._alike.setdefault(_without_numbers(path), []).append(path)
        if len(known) > _MOST_READ:
            kinds = list(self._alike.items())[: _MOST_READ // 2]
            self._alike = {kind: [alike[0], alike[-1]] for kind, alike in kinds}
        with torch._C.DisableTorchFunction():
            self._last = {path: self._read(path) for alike in self._alike.values() for path in alike}
        self._lines: dict[str, tuple[CallSite, ...]] = {}
        self._given: set[str] = set()
        self._looks = 0
        self._running: tuple[FrameType, int] | None = None
        "The innermost frame of the user's code, and the line that it is running."

    def line_of(self, path: str) -> tuple[CallSite, ...]:
        """Return the frames of the line that changed this state last, or nothing."""
        found = {self._lines.get(one, ()) for one in self._read_for(path)}
        return found.pop() if len(found) == 1 else ()

    def is_given_memory(self, path: str) -> bool:
        """Return whether the state is still the same tensor but uses other memory, for example after `.data = …`."""
        return not self._given.isdisjoint(self._read_for(path))

    def _read_for(self, path: str) -> list[str]:
        return [path] if path in self._last else self._alike.get(_without_numbers(path), [])

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Handle an event. This is a trace function for `sys.settrace`."""
        if not self._last or not is_user_file(frame.f_code.co_filename):
            return None
        self._look()
        running = frame if event != "return" else next(iter(user_frames_now(frame.f_back)), None)
        self._running = None if running is None else (running, running.f_lineno)
        return self.trace

    def _look(self) -> None:
        """Read the state. If it has changed, record the running line as the cause."""
        self._looks += 1
        if self._looks > _MOST_LOOKS:  # too many lines; those found so far may not be the last that change the state
            self._last.clear()
            self._lines.clear()
        with torch._C.DisableTorchFunction():
            found = [(path, before, self._read(path)) for path, before in self._last.items()]
        for path, before, now in found:
            if now is None or (before is not None and now[1] == before[1]):
                continue
            self._last[path] = now
            if self._running is not None:
                frame, line = self._running
                self._lines[path] = (*user_frames(frame)[0][:-1], call_site(frame.f_code, line))
            if before is not None and now[0] is before[0] is not None:
                self._given.add(path)
            else:
                self._given.discard(path)

    def _read(self, path: str) -> tuple[torch.Tensor | None, int | str] | None:
        """Return the value at a path as a pair: a tensor and the identity of its memory, or None and a number as text.
        Return None if the path has no such value now, for example because a gradient was dropped."""
        try:
            value = self._held(*self._reach.owners[path])
            if isinstance(value, torch.Tensor):
                return value, memory_key(value)
            return None if value is None else (None, WRITERS[id(type(value))](value))
        except Exception:  # a container may now have another class, and a tensor may have no memory
            return None

    def _held(self, container: Any, key: Any) -> Any:
        """Return the value that a container now has under a key. If the container was replaced, use the new one."""
        outer = self._outer.get(id(container))
        return held_at(container if outer is None else self._held(*self._reach.holders[outer]), key)


def _without_numbers(path: str) -> str:
    return re.sub(r"\d+", "0", path)
