"""What a step does with CUDA graphs of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphsafe.capture.session import Session
    from graphsafe.report.model import CallSite


@contextmanager
def own_graphs_watched(session: Session, reported: dict[str, Any]) -> Iterator[None]:
    """Around steps. `replays`: the calls at which they replay graphs; `compiled`: whether these are Inductor's, or
    would be, had it not left them out."""
    replays: list[tuple[CallSite, ...]] = []
    try:
        with session.device.watch_replays(replays.append):
            yield
    finally:
        reported |= {"replays": _frames(replays), "compiled": bool(replays or _skips()) and _has_trees()}


def _frames(replays: Sequence[tuple[CallSite, ...]]) -> list[list[dict[str, Any]]]:
    return [[asdict(frame) for frame in frames] for frames in dict.fromkeys(replays)]


def _has_trees() -> bool:
    return "torch._inductor.cudagraph_trees" in sys.modules


def _skips() -> int:
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["inductor"]["cudagraph_skips"])
