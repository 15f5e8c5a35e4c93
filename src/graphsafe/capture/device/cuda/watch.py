"""Finds, in one run of an eager step, every line that waits for the device, copies, or queries the device's progress.

PyTorch's GPU trace calls back before each wait inside PyTorch, with the live Python stack. (Sync-debug mode warns only
of some of these waits.) The trace does not report queries, so the functions that query are patched here. The trace does
not report pageable copies with `non_blocking=True` either, but the dispatch mode sees these copies. The callbacks of
the trace cannot be removed; this is one reason why the step child is a separate process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from graphsafe.capture.answers.events import StepEventKind
from graphsafe.capture.device.cuda import gpu_trace
from graphsafe.capture.device.cuda.trace import Running, Sink, traced
from graphsafe.capture.device.protocol import RESEEDS
from graphsafe.capture.shared.collectives import OF_OBJECTS
from graphsafe.capture.shared.replaced import replaced

_WAITS: Mapping[str, StepEventKind] = {
    "torch.cuda.synchronize": "wait",
    "torch.cuda.Event.synchronize": "wait",
    "torch.cuda.Event.elapsed_time": "query",
    "torch.cuda.Event.query": "query",
    "torch.cuda.Stream.synchronize": "wait",
    "torch.cuda.Stream.query": "query",
}
_OF_RANKS: tuple[tuple[str, StepEventKind], ...] = (
    ("barrier", "wait"),
    *((name, "hidden-sync") for name in OF_OBJECTS),
)


def waits_patched(running: Running) -> AbstractContextManager[None]:
    """Report calls that wait for the device or query it, directly or through events and streams. Also report calls that
    seed the device's generators. Each call is reported by its name."""
    changes = [_reporting(running, kind, spelled) for spelled, kind in _WAITS.items()]
    changes += [_reporting(running, "random", spelled, how="reseed") for spelled in RESEEDS]
    if torch.distributed.is_available():
        changes.append(_reporting(running, "query", "torch.distributed.Work.is_completed"))
        changes += [(torch.distributed, name, _reporting_as_a_whole(running, name, kind)) for name, kind in _OF_RANKS]
    return replaced(*changes)


def _reporting(running: Running, kind: StepEventKind, spelled: str, **data: Any) -> tuple[Any, str, Any]:
    """Return the owner, the name and the replacement of the function with this full name."""
    _, *folders, name = spelled.split(".")
    owner: Any = functools.reduce(getattr, folders, torch)
    original = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        if not running.reported:
            running.report(kind, spelled, **data)
        running.reported = True
        try:
            return original(*args, **kwargs)
        finally:
            running.reported = False

    return owner, name, call


def _reporting_as_a_whole(running: Running, name: str, kind: StepEventKind) -> Any:
    """Return a replacement for a function that is reported as a whole: it consists of many operations that the user
    cannot change separately."""
    original, spelled = getattr(torch.distributed, name), f"torch.distributed.{name}"

    def call(*args: Any, **kwargs: Any) -> Any:
        running.report(kind, spelled)
        running.inside = running.inside or spelled
        try:
            return original(*args, **kwargs)
        finally:
            running.inside = None if running.inside == spelled else running.inside

    return call


@contextmanager
def step_watched(sink: Sink) -> Iterator[None]:
    running = Running(sink)
    watching = True

    def stream_wait(*_: Any) -> None:
        if watching:
            running.waited()

    def other_wait(name: str) -> Callable[..., None]:
        def watched(*_: Any) -> None:
            if watching and not running.reported:
                running.report("wait", name)

        return watched

    gpu_trace.register(
        stream_synchronization=stream_wait,
        device_synchronization=other_wait("torch.cuda.synchronize"),
        event_synchronization=other_wait("torch.cuda.Event.synchronize"),
    )
    try:
        with gpu_trace.traced(), waits_patched(running), traced(running):
            yield
    finally:
        watching = False
