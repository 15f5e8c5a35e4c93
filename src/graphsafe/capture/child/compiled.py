"""Runs a compiled step unchanged, and reads from Inductor's log how Inductor uses CUDA graphs and which operations it
leaves out of them."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from graphsafe.capture.child.session import REPLAYS, opened
from graphsafe.capture.shared.frames import absolute, is_user_file
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.model import CallSite
from graphsafe.report.probes.construct import Attempt
from graphsafe.report.probes.step import Compiled, Left

_SKIP = re.compile(r"^(?:skipping|disabling) cudagraphs? (?:for backward )?due to (?P<reason>.*)", re.DOTALL)
_PARTITION = re.compile(r"^cudagraph partition due to (?P<reason>.*)", re.DOTALL)
"The log's format up to torch 2.11: one message that contains the stack."
_NODE = re.compile(r"^\s+\w+: reason=(?P<reason>.*?), ir=")
"The log's format in later versions: a line for each operation, with its stack in the following lines."
_AGAIN = re.compile(r"Re-recording .*?reason[ =:](?P<reason>.*)", re.DOTALL)
_SIZE = re.compile(r"[Rr]ecording cudagraph tree for symint key (?P<key>.*)")
_FOUND = re.compile(r"\.?\s*Found from\s*:?\s*")
_FRAME = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


def read_log(messages: Sequence[str]) -> Compiled:
    """Return what the log says about the step. The numbers come later, from a profile and from counters."""
    again = [match["reason"].strip() for message in messages if (match := _AGAIN.search(message))]
    sizes = [match["key"].strip() for message in messages if (match := _SIZE.search(message))]
    left = tuple(dict.fromkeys(_left(messages)))
    return Compiled(None, None, left, tuple(dict.fromkeys(again)), tuple(dict.fromkeys(sizes)), 0, {})


def _left(messages: Sequence[str]) -> Iterator[Left]:
    for index, message in enumerate(messages):
        for pattern, part in ((_SKIP, False), (_PARTITION, True)):
            match = pattern.match(message)
            if match:
                reason, *stack = _FOUND.split(match["reason"], maxsplit=1)
                yield Left(part, _sentence(reason), _frames(stack))
        node = _NODE.match(message)
        if node:
            yield Left(True, _sentence(node["reason"]), _frames(_stack_after(messages, index)))


def _stack_after(messages: Sequence[str], index: int) -> Iterator[str]:
    for line in messages[index + 1 :]:
        if _NODE.match(line) or not line.startswith(" "):
            return
        yield line


def _sentence(reason: str) -> str:
    return " ".join(reason.split()).rstrip(". ")


def _frames(texts: Iterable[str]) -> tuple[CallSite, ...]:
    found = [match for text in texts for match in _FRAME.finditer(text)]
    return tuple(
        CallSite(absolute(match["path"]), int(match["line"]), match["function"])
        for match in found
        if is_user_file(match["path"])
    )


_MODULES = ("compile_fx", "cudagraph_trees", "cudagraph_utils", "output_code", "scheduler")
_ARTIFACTS = ("cudagraphs", "perf_hints")
_COUNTERS = ("cudagraph_skips", "cudagraph_partitions", "cudagraph_recorded_non_static_inputs")


def run(job: Job, channel: Channel) -> None:
    messages: list[str] = []
    with _log_collected(messages), _compiled_anew(), opened(job, channel) as session:
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
        answer = replace(read_log(messages), captures_after_warmup=len(captures), counters=_counters())
        if kernels is not None:
            answer = replace(answer, kernels=kernels.total, from_graphs=kernels.in_graphs)
        channel.send(answer)


@contextmanager
def _log_collected(messages: list[str]) -> Iterator[None]:
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
    """Compile without Inductor's caches of graphs. Earlier children filled these caches, and Inductor logs nothing
    about a graph from a cache. The caches of compiled kernels stay in use."""
    functorch: Any = importlib.import_module("torch._functorch.config")
    inductor: Any = importlib.import_module("torch._inductor.config")
    with (
        functorch.patch(enable_autograd_cache=False),
        inductor.patch(fx_graph_cache=False, fx_graph_remote_cache=False),
    ):
        yield


def _counters() -> dict[str, Any]:
    from torch._dynamo.utils import counters

    found = {name: int(counters["inductor"][name]) for name in _COUNTERS}
    found["unique_graphs"] = int(counters["stats"]["unique_graphs"])
    return {**found, "graph_breaks": {str(reason)[:200]: count for reason, count in counters["graph_break"].items()}}
