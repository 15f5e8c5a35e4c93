"""`Step`: what a factory returns if its step needs more than a callable and arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One step, with functions that give it new inputs and reset its state.

    `refresh(args, kwargs, k)` writes new values in place for replay `k` (1, 2, ...). Before each call, torch, numpy and
    random are seeded with a number that depends on `k`. `reset()` puts back the state that the step changes.

    `events` are actions that happen between steps: `{"reload": engine.reload, "gc": gc.collect}`. Each event is called
    once, in this order, and the replay after it must equal an eager step. An event may set another length, for which
    the step would choose other kernel launches. The graph keeps its old choices, so graphsafe measures how much slower
    they are than those of a new capture.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    refresh: Callable[[tuple[Any, ...], Mapping[str, Any], int], Any] | None = None
    reset: Callable[[], Any] | None = None
    events: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
