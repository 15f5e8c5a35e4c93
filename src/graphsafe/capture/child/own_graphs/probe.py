"""Runs steps of a target with its own CUDA graphs in a child, and compares them with the reference, which was built
without these graphs. Also watches the replays of the target's own graphs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from graphsafe.capture.answers.probes import Given, OwnGraphs
from graphsafe.capture.child.probes.capture import Replays, given_reference
from graphsafe.capture.child.session import Session, opened
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.model import CallSite

_TREES = "torch._inductor.cudagraph_trees"


@contextmanager
def own_graphs_watched(session: Session) -> Iterator[Callable[[], OwnGraphs]]:
    """Watch the graphs that steps replay. Yield a function that returns what has been seen so far."""
    replays: list[tuple[CallSite, ...]] = []
    with session.device.watch_replays(replays.append):
        yield lambda: OwnGraphs(tuple(dict.fromkeys(replays)), bool(replays or _skips()) and _TREES in sys.modules)


def _skips() -> int:
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["inductor"]["cudagraph_skips"])


@dataclass
class _Steps:
    """Steps of the target with its own graphs, in the form that `Replays` needs."""

    session: Session
    outputs: Any = None

    def replay(self) -> None:
        self.outputs = self.session.step()


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        given = given_reference(session)
        if given is None:
            return  # without a reference, nothing can be compared
        built, reference = given
        session.warm_up_on_capture_stream()
        replays = Replays(session, _Steps(session), reference)
        replays.run(built, first_step=False)
        channel.send(Given(replays.against("its own graphs"), tuple(replays.different)))
