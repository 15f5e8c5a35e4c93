"""Watches how a step uses its own CUDA graphs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from graphsafe.capture.answers.probes import OwnGraphs
from graphsafe.capture.child.session import Session
from graphsafe.report.model import CallSite

_TREES = "torch._inductor.cudagraph_trees"


@contextmanager
def own_graphs_watched(session: Session) -> Iterator[Callable[[], OwnGraphs]]:
    """Watch the graphs that steps replay. Yield a function that returns the usage seen so far."""
    replays: list[tuple[CallSite, ...]] = []
    with session.device.watch_replays(replays.append):
        yield lambda: OwnGraphs(tuple(dict.fromkeys(replays)), bool(replays or _skips()) and _TREES in sys.modules)


def _skips() -> int:
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["inductor"]["cudagraph_skips"])
