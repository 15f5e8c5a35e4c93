"""Runs a compiled step unchanged, in a child, and reports Inductor's use of CUDA graphs."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graphsafe.capture.child.compiled.messages import read_log
from graphsafe.capture.child.session import REPLAYS, opened
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.probes.construct import Attempt
from graphsafe.report.probes.step import Compiled

_MODULES = ("compile_fx", "cudagraph_trees", "cudagraph_utils", "output_code", "scheduler")
_ARTIFACTS = ("cudagraphs", "perf_hints")
_COUNTERS = ("cudagraph_skips", "cudagraph_partitions", "cudagraph_recorded_non_static_inputs")


def run(job: Job, channel: Channel) -> None:
    messages: list[str] = []
    with _heard(messages), _compiled_anew(), opened(job, channel) as session:
        session.load_sets()
        with session.device.capture_stream():
            session.warm_up()
            captures: list[Attempt] = []
            with session.device.watch_captures(captures.append):
                for k in range(1, REPLAYS + 1):
                    channel.phase(f"step {k} on changed inputs")
                    session.put_inputs(k)
                    session.step()
            channel.phase("count kernels")
            session.put_inputs(1)
            kernels = session.device.kernels(session.subject)
        answer = read_log(messages)
        channel.tell(
            Compiled(
                kernels=None if kernels is None else kernels.total,
                from_graphs=None if kernels is None else kernels.in_graphs,
                left=answer.left,
                recorded_again=answer.recorded_again,
                sizes=answer.sizes,
                captures_after_warmup=len(captures),
                counters=_counters(),
            )
        )


@contextmanager
def _heard(messages: list[str]) -> Iterator[None]:
    """Collect Inductor's messages about CUDA graphs, from the first compilation on."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    listener, loggers = Listener(), []
    for module in _MODULES:
        importlib.import_module(f"torch._inductor.{module}")
        loggers += [logging.getLogger(f"torch._inductor.{module}.__{artifact}") for artifact in _ARTIFACTS]
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(listener)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, level, propagate in before:
            logger.removeHandler(listener)
            logger.setLevel(level)
            logger.propagate = propagate


@contextmanager
def _compiled_anew() -> Iterator[None]:
    """Compile without Inductor's caches of graphs: earlier children filled them, and its log says nothing about a
    cached graph. Compiled kernels may come from a cache."""
    functorch: Any = importlib.import_module("torch._functorch.config")
    inductor: Any = importlib.import_module("torch._inductor.config")
    with (
        functorch.patch(enable_autograd_cache=False),
        inductor.patch(fx_graph_cache=False, fx_graph_remote_cache=False),
    ):
        yield


def _counters() -> dict[str, Any]:
    """Return Inductor's own counters."""
    from torch._dynamo.utils import counters

    found = {name: int(counters["inductor"][name]) for name in _COUNTERS}
    found["unique_graphs"] = int(counters["stats"]["unique_graphs"])
    return {**found, "graph_breaks": {str(reason)[:200]: count for reason, count in counters["graph_break"].items()}}
