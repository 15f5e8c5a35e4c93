"""Measures what a graph costs and gains: its pool, the peak of a step, and the time of an eager step and of a replay.

It runs in a separate process. While it measures, no other process uses the device.
"""

from __future__ import annotations

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.child.long_run import long_run
from graphsafe.capture.child.memory_use import pool_memory_held
from graphsafe.capture.child.probes.timing import eager_times, times_of
from graphsafe.capture.child.session import CAPTURE_SEED, opened
from graphsafe.capture.child.state import Snapshot
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.probes.memory import Memory
from graphsafe.report.probes.timing import Timing


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        with session.device.capture_stream():
            session.warm_up()
        # Measure before any probe of graphsafe allocates on the device.
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
            recording = session.device.record(session.subject)
        if isinstance(recording, CaptureFailure):
            channel.tell(Memory(peak_bytes=peak), Timing(eager_ms=eager.median))
            return
        # If the device cannot inspect a pool, the step child predicts its size.
        pool = None if session.device.evidence == "predicted" else pool_memory_held(taken)
        channel.phase("time replays")
        graph = times_of(session, recording.replay, state)
        channel.tell(
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
            del state  # the variable would keep tensors alive that the target drops
            channel.tell(long_run(session, recording, job.replays))
