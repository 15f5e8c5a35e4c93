"""Finds everything that a step can reach, in one walk over its callable and its arguments."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Any

import torch

from graphsafe.capture.child.state.contents import handler_of
from graphsafe.capture.child.state.reach import ReachableState
from graphsafe.capture.child.state.walk import Handler, ObjectWalk
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
