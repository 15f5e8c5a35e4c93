"""Measures what a graph costs and saves: the size of its pool, the peak memory of a step, and the time of an eager step
and of a replay.

This runs in a separate process while no other process uses the device.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.child.long_run import long_run
from graphsafe.capture.child.memory_use import pool_memory_held
from graphsafe.capture.child.session import CAPTURE_SEED, Session, opened
from graphsafe.capture.child.state import Snapshot, undo_of
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.probes.memory import Memory
from graphsafe.report.probes.timing import Timing

_ROUNDS = 20
_LEAST_ROUNDS = 5
_SECONDS = 4.0
"After the minimum number of rounds, no round starts after this many seconds."


@dataclass(frozen=True, slots=True)
class Times:
    """The times of several rounds of one call, in milliseconds; None if the device has no clock."""

    median: float | None = None
    spread: tuple[float, float] | None = None
    "The 10th and the 90th percentile of the rounds' times."

    @staticmethod
    def of(rounds: Sequence[float]) -> Times:
        if len(rounds) < 2:
            return Times(rounds[0] if rounds else None)
        tenths = statistics.quantiles(rounds, n=10, method="inclusive")
        return Times(statistics.median(rounds), (tenths[0], tenths[-1]))


def interleaved_times(session: Session, calls: Sequence[Callable[[], Any]], state: Snapshot) -> list[Times]:
    """Time the calls in turn, for several rounds. State is put back before each round, because a cache that fills up
    must not overflow."""
    taken: list[list[float]] = [[] for _ in calls]
    begun = time.monotonic()
    undo: Callable[[], None] | None = None
    for number in range(_ROUNDS + 1):
        if session.ranks.any(number > _LEAST_ROUNDS and time.monotonic() - begun > _SECONDS):
            break
        if number == 1:
            undo = undo_of(session.device, state)
        state.put_back(undo)
        for call, times in zip(calls, taken, strict=True):
            session.ranks.align()
            one = session.device.time_ms(call)
            if one is None:
                return [Times() for _ in calls]
            if number:  # the first round warms up
                times.append(one)
    return [Times.of(times) for times in taken]


def eager_times(session: Session, state: Snapshot) -> Times:
    """Time eager steps. Raises TargetError if a step fails."""
    return times_of(session, partial(session.step, wait=False), state)


def times_of(session: Session, call: Callable[[], Any], state: Snapshot) -> Times:
    return interleaved_times(session, [call], state)[0]


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        session.warm_up_on_capture_stream()
        # Read the peak before graphsafe itself allocates on the device.
        peak = session.device.memory().peak
        state = Snapshot(session.device, session.subject)
        shared = not channel.wait_to_be_alone()
        channel.phase("time eager steps")
        eager = eager_times(session, state)
        kernels = session.device.kernels(session.subject)
        state.put_back()
        session.seed(CAPTURE_SEED)
        channel.phase("capture")
        with session.device.watch_memory() as taken:
            recording = session.record()
        if isinstance(recording, CaptureFailure):
            channel.send(Memory(peak_bytes=peak), Timing(eager_ms=eager.median))
            return
        # The pool of a simulated device cannot be read. The step child then predicts the pool's size.
        pool = None if session.device.evidence == "predicted" else pool_memory_held(taken)
        channel.phase("time replays")
        graph = times_of(session, recording.replay, state)
        channel.send(
            Memory("pass", pool_bytes=recording.pool_bytes(), peak_bytes=peak, pool=pool),
            Timing(
                "skipped" if eager.median is None else "pass",
                eager_ms=eager.median,
                graph_ms=graph.median,
                launches=None if kernels is None else kernels.total,
                eager_spread_ms=eager.spread,
                graph_spread_ms=graph.spread,
                shared=shared,
            ),
        )
        if job.replays is not None:
            channel.phase(f"{job.replays} replays")
            state.put_back()
            del state  # the variable would keep alive tensors that the target drops
            channel.send(long_run(session, recording, job.replays))
