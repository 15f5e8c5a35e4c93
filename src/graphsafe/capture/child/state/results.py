"""Finds everything in the results of a step. Nothing in the results may be left out silently; this differs from state.
An object of an unknown class counts as unreadable if it holds tensors that cannot be reached through its attributes."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

import torch

from graphsafe.capture.child.state.containers import OPAQUE, OVER_SEQUENCES
from graphsafe.capture.child.state.contents import handler_of
from graphsafe.capture.child.state.holders import holds_tensor
from graphsafe.capture.child.state.objects import cached_per_class
from graphsafe.capture.child.state.reach import ReachableState
from graphsafe.capture.child.state.reachable import walk
from graphsafe.capture.child.state.sets import in_order
from graphsafe.capture.child.state.walk import Handler, ObjectWalk, stored_in

_OPAQUE: tuple[Any, ...] = (
    *(torch._C.Future, concurrent.futures.Future, asyncio.Future),
    *(torch.ScriptObject, torch.UntypedStorage, torch.TypedStorage),
)
"Classes whose objects may get their tensors later, or keep them in C++."


def results_in(outputs: Any) -> ReachableState:
    """Return everything that a step's results refer to."""
    return walk({"output": outputs}, _handler_of)


@cached_per_class
def _handler_of(kind: type) -> Handler | None:
    if issubclass(kind, _OPAQUE):
        return _take_unreadable
    handler = handler_of(kind)
    if issubclass(kind, (set, frozenset)):
        return _take_set
    return _take_other if handler is None or kind in (*OPAQUE, *OVER_SEQUENCES) else handler


def _take_unreadable(walk: ObjectWalk, path: str, value: Any) -> None:
    walk.reach.unreadable[path] = f"the content of a {type(value).__name__}"


def _take_set(walk: ObjectWalk, path: str, value: Any) -> None:
    base: Any = set if issubclass(type(value), set) else frozenset
    elements, are_told_apart = in_order(base.__iter__(value), _handler_of)
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
