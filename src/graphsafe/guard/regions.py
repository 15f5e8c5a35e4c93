"""The two context managers: `forbid` reports what a block does on its thread, and `allow` exempts a part of the block.

In code that Dynamo traces, neither of them has an effect. Nothing is raised before the block ends, so that all its
lines are reported together. Other threads are not affected.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Literal, ParamSpec, TypeVar, cast

import torch

from graphsafe.capture.answers.events import StepEvent, StepEventKind
from graphsafe.capture.shared.frames import is_user_file, user_frames
from graphsafe.errors import RequestError
from graphsafe.guard.findings import Forbidden, findings_of, message_of
from graphsafe.guard.source import Launches, Source
from graphsafe.report.model import CallSite

_P = ParamSpec("_P")
_R = TypeVar("_R")

Forbiddable = Literal["syncs", "copies", "allocations"]
_KIND_OF: dict[StepEventKind, Forbiddable] = {
    "read": "syncs",
    "wait": "syncs",
    "extent": "syncs",
    "hidden-sync": "syncs",
    "copy-to-host": "copies",
    "copy-to-device": "copies",
    "allocation": "allocations",
}
"""Kind of event -> the group of operations to which it belongs. An event is reported if its group is forbidden. Queries
(`event.query()`) do not wait, so they are left out."""
_MOST_UNKNOWN = 3
_NOTHING_TO_SEE = (
    "graphsafe.forbid would see nothing: there is no GPU here and no simulated device; use the fixture "
    "graphsafe_device, or run pytest with --graphsafe-device sim"
)


@dataclass(slots=True)
class _Entered:
    """One entry of a thread into a region."""

    region: Region
    outer: int = 0
    "The number of the user's frames outside the block."
    begun: CallSite | None = None
    events: list[StepEvent] = field(default_factory=list)
    counting: ExitStack = field(default_factory=ExitStack)
    launched: Callable[[], Launches] = Launches


class _Stack:
    """The regions that a thread has entered, outermost first, and the source that watches this thread."""

    def __init__(self) -> None:
        self.entered: list[_Entered] = []
        self.source: Source | None = None
        self.watching = ExitStack()

    def wants(self, kind: StepEventKind) -> bool:
        return self._forbidding(kind) is not None

    def told(self, event: StepEvent) -> None:
        entry = self._forbidding(event.kind)
        if entry is not None:
            outer = min(entry.outer, max(len(event.frames) - 1, 0))
            entry.events.append(replace(event, frames=event.frames[outer:]))

    def _forbidding(self, kind: StepEventKind) -> _Entered | None:
        """Return the innermost region that forbids this kind of event, or None if a region inside of it allows
        everything."""
        forbidden = _KIND_OF.get(kind)
        for entry in reversed(self.entered):
            if entry.region.forbidden is None:
                return None
            if forbidden in entry.region.forbidden:
                return entry
        return None

    def push(self, entry: _Entered) -> None:
        """Enter a region.

        Raises RequestError if no source can watch this thread, or if launches are already being counted.
        """
        if entry.region.forbidden is not None:
            if self.source is None:
                source = _source_here()
                self.watching.enter_context(source.watched(self))
                self.source = source
            if entry.region.launches is not None:
                entry.launched = entry.counting.enter_context(self.source.launches_counted())
        self.entered.append(entry)

    def pop(self, region: Region) -> _Entered:
        entry = next(entry for entry in reversed(self.entered) if entry.region is region)
        entry.counting.close()
        self.entered.remove(entry)
        if all(left.region.forbidden is None for left in self.entered):
            self.source = None
            self.watching.close()
        return entry


def _source_here() -> Source:
    """Return the source that can watch this thread. Raises RequestError if there is none."""
    worlds = sys.modules.get("graphsafe.capture.device.sim.world")
    world = None if worlds is None else worlds.active()
    if world is not None:
        from graphsafe.guard.on_sim import SimSource

        return SimSource(world)
    if torch.cuda.is_available():
        from graphsafe.guard.on_cuda import CudaSource

        return CudaSource()
    raise RequestError(_NOTHING_TO_SEE)


class _Here(threading.local):
    def __init__(self) -> None:
        self.stack = _Stack()


_here = _Here()


def is_watched() -> bool:
    """Return whether this thread is inside a `forbid` block."""
    return _here.stack.source is not None


class Region:
    """A block in which operations are forbidden, or which is exempt from the regions around it.

    Any thread can enter it any number of times.
    """

    def __init__(self, forbidden: frozenset[Forbiddable] | None, launches: int | None = None) -> None:
        """`forbidden` is None if the region allows everything. `launches` is the largest number of launches."""
        self.forbidden = forbidden
        self.launches = launches

    def __enter__(self) -> None:
        entry, frame = _Entered(self), sys._getframe(1)
        if self.forbidden is not None:
            frames, _ = user_frames(frame)
            entry.outer = len(frames) - is_user_file(frame.f_code.co_filename)
            entry.begun = frames[-1] if frames else None
        _here.stack.push(entry)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        """End the block. Raises Forbidden if the block did something forbidden.

        If the block itself raised an error, the message is added to that error as a note instead.
        """
        __tracebackhide__ = True
        source = _here.stack.source
        entry = _here.stack.pop(self)
        if self.forbidden is None or source is None:
            return
        launched = entry.launched()
        if not entry.events and (self.launches is None or launched.count <= self.launches):
            _warn_of_unknown(source.unknown())
            return
        findings = findings_of(entry.events, source.evidence)
        text = message_of(findings, entry.events, entry.begun, launched, self.launches)
        if error is None:
            raise Forbidden(text, findings)
        if hasattr(error, "add_note"):
            error.add_note(text)

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(f"{function.__qualname__} returns before its body has run: use the block inside it")

        @functools.wraps(function)
        def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            __tracebackhide__ = True
            if torch.compiler.is_compiling():
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return guarded


_VANISHED = cast(Region, nullcontext())
"A context manager that Dynamo can trace. It replaces a region in traced code."


def forbid(
    *, syncs: bool = True, copies: bool = True, allocations: bool = False, launches: int | None = None
) -> Region:
    """Make a block raise an error if its thread waits, copies or allocates, or if it launches too much.

    It is a context manager and a decorator. `syncs`: the host waits for the device. `copies`: a copy between host and
    device blocks, or uses pageable memory. `allocations`: the block allocates device memory, or pins host memory.
    `launches`: the largest number of kernels and copies that the block may launch. When the block ends, one `Forbidden`
    (an AssertionError) names all lines. `with graphsafe.allow(reason):` exempts a part of the block, but not from
    `launches`.

    Raises RequestError on entry if there is neither a GPU nor a simulated device, because the block could not be
    watched then.
    """
    if torch.compiler.is_compiling():
        return _VANISHED
    asked: dict[Forbiddable, bool] = {"syncs": syncs, "copies": copies, "allocations": allocations}
    forbidden = frozenset(kind for kind, is_forbidden in asked.items() if is_forbidden)
    if not forbidden and launches is None:
        raise ValueError("graphsafe.forbid forbids nothing: set syncs, copies, allocations or launches")
    if launches is not None and (type(launches) is not int or launches < 0):
        raise ValueError(f"graphsafe.forbid: launches is a whole number from 0 on, or None, not {launches!r}")
    return Region(forbidden, launches)


def allow(reason: str) -> Region:
    """Exempt a part of a `forbid` block. It is a context manager and a decorator.

    The reason is for readers of the code.
    """
    if torch.compiler.is_compiling():
        return _VANISHED
    if not reason.strip():
        raise ValueError("graphsafe.allow: give a reason")
    return Region(None)


def _warn_of_unknown(unknown: Sequence[str]) -> None:
    more = len(unknown) - _MOST_UNKNOWN
    listed = ", ".join(unknown[:_MOST_UNKNOWN]) + (f" and {more} more" if more > 0 else "")
    if unknown:
        warnings.warn(f"graphsafe.forbid does not know whether these wait: {listed}", stacklevel=3)
