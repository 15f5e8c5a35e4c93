"""`Step`: the return value of a factory whose step needs more than a callable and arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One step, with functions that give it new inputs and put its state back.

    `refresh(args, kwargs, k)` writes new values in place for replay `k` (1, 2, ...); torch, numpy and random are seeded
    by `k` before it is called. `reset()` puts back the state that the step changes.

    `events` are actions that happen between steps: `{"reload": engine.reload, "gc": gc.collect}`. Each is called once,
    in this order, and a replay after it must equal an eager step. After an event that sets another length, launch
    choices that the graph froze for the old length are timed against the choices of a new capture.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    refresh: Callable[[tuple[Any, ...], Mapping[str, Any], int], Any] | None = None
    reset: Callable[[], Any] | None = None
    events: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
