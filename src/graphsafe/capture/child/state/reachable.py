"""Finds everything that a step can reach, in one walk over its callable and its arguments, and everything in its
results. In results, unlike in state, nothing may be left out silently. An object of an unknown class counts as
unreadable if it holds tensors that cannot be reached through its attributes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
from collections.abc import Callable, Mapping
from typing import Any

import torch

from graphsafe.capture.child.state.containers import OPAQUE, OVER_SEQUENCES
from graphsafe.capture.child.state.contents import handler_of
from graphsafe.capture.child.state.objects import cached_per_class, holds_tensor
from graphsafe.capture.child.state.reach import ReachableState
from graphsafe.capture.child.state.walk import Handler, ObjectWalk, in_order, stored_in
from graphsafe.capture.child.targets import Subject


def reachable_state(subject: Subject) -> ReachableState:
    """Return everything that the callable refers to, then everything that the arguments refer to."""
    return walk({"": subject.fn, "args": subject.args, "kwargs": subject.kwargs})


def _with_refresh(subject: Subject) -> dict[str, Any]:
    return {"": subject.fn, "args": subject.args, "kwargs": subject.kwargs, "refresh": subject.refresh}


def reach_with_refresh(subject: Subject) -> ReachableState:
    """Return `reachable_state` with all that `refresh` refers to, because a refresh may keep state from call to
    call."""
    return walk(_with_refresh(subject))


def tensors_of_refresh(subject: Subject) -> dict[str, torch.Tensor]:
    """Return the tensors that only the refresh reaches, such as a data set."""
    if subject.refresh is None:
        return {}
    of_step = reachable_state(subject).tensors
    return {path: one for path, one in reach_with_refresh(subject).tensors.items() if path not in of_step}


def generators_of(subject: Subject) -> ReachableState:
    """Return only the generators of a step and its refresh, so that no other object is kept alive."""
    reach = reach_with_refresh(subject)
    return ReachableState(generators=reach.generators, host_generators=reach.host_generators)


def objects_of(subject: Subject) -> list[Any]:
    """Return the objects that the step reaches, nearest first: modules, containers and the user's own objects."""
    walk = ObjectWalk()
    with torch._C.DisableTorchFunction():
        walk.run(_with_refresh(subject), handler_of)
    return walk.alive


def walk(roots: Mapping[str, Any], handler_of: Callable[[type], Handler | None] = handler_of) -> ReachableState:
    # The walk keeps alive all objects that it finds. Repeated garbage collections over these objects would take most of
    # the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with torch._C.DisableTorchFunction():
            return ObjectWalk().run(roots, handler_of)
    finally:
        if collecting:
            gc.enable()


_LATE: tuple[Any, ...] = (
    *(torch._C.Future, concurrent.futures.Future, asyncio.Future),
    *(torch.ScriptObject, torch.UntypedStorage, torch.TypedStorage),
)
"Classes whose objects may get their tensors later, or keep them in C++."


def results_in(outputs: Any) -> ReachableState:
    """Return everything that a step's results refer to."""
    return walk({"output": outputs}, _handler_of_result)


@cached_per_class
def _handler_of_result(kind: type) -> Handler | None:
    if issubclass(kind, _LATE):
        return _take_unreadable
    handler = handler_of(kind)
    if issubclass(kind, (set, frozenset)):
        return _take_set
    return _take_other if handler is None or kind in (*OPAQUE, *OVER_SEQUENCES) else handler


def _take_unreadable(walk: ObjectWalk, path: str, value: Any) -> None:
    walk.reach.unreadable[path] = f"the content of a {type(value).__name__}"


def _take_set(walk: ObjectWalk, path: str, value: Any) -> None:
    base: Any = set if issubclass(type(value), set) else frozenset
    elements, are_told_apart = in_order(base.__iter__(value), _handler_of_result)
    if not are_told_apart and holds_tensor(elements):
        walk.reach.unreadable[path] = "a set of objects that cannot be told apart"
        return
    handler = handler_of(type(value))
    assert handler is not None
    handler(walk, path, value)


def _take_other(walk: ObjectWalk, path: str, value: Any) -> None:
    if not holds_tensor(value):
        return
    stored = list(stored_in(path, value))
    if holds_tensor([item for _, item, _, _ in stored]):
        walk.enqueue(stored)
    else:
        _take_unreadable(walk, path, value)
