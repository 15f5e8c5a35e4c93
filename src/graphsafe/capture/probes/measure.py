"""What a graph costs and gains: its pool, the peak of a step, and the time of an eager step against a replay.

In a process of its own, which has the device alone while it measures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphsafe.capture.device.protocol import CaptureFailure
from graphsafe.capture.long_run.replays import long_run
from graphsafe.capture.memory_use import pool_memory_held
from graphsafe.capture.probes.timing import eager_ms, ms
from graphsafe.capture.session import CAPTURE_SEED, opened
from graphsafe.capture.state import Snapshot

if TYPE_CHECKING:
    from graphsafe.capture.job import Channel, Job


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        with session.device.capture_stream():
            session.warm_up()
        # Before any probe of ours allocates on the device.
        peak = session.device.memory().peak
        state = Snapshot(session.device, session.subject)
        shared = not channel.wait_to_be_alone()
        channel.phase("time eager steps")
        eager = eager_ms(session, state)
        kernels = session.device.kernels(session.subject)
        state.put_back()
        session.seed(CAPTURE_SEED)
        channel.phase("capture")
        with session.device.watch_memory() as taken:
            recording = session.device.record(session.subject)
        if isinstance(recording, CaptureFailure):
            channel.tell(
                memory={"status": "skipped", "peak_bytes": peak}, timing={"status": "skipped", "eager_ms": eager}
            )
            return
        # Where there is no pool to look into, the step child predicts it.
        pool = {} if session.device.evidence == "predicted" else {"pool": pool_memory_held(taken)}
        channel.phase("time replays")
        graph = ms(session, recording.replay, state)
        channel.tell(
            memory={
                "status": "pass",
                "pool_bytes": recording.pool_bytes(),
                "peak_bytes": peak,
                **pool,
            },
            timing={
                "status": "skipped" if eager is None else "pass",
                "eager_ms": eager,
                "graph_ms": graph,
                "launches": None if kernels is None else kernels.total,
                "shared": shared,
            },
        )
        if job.replays is not None:
            channel.phase(f"{job.replays} replays")
            state.put_back()
            del state  # it would keep alive what the target drops
            channel.tell(growth=long_run(session, recording, job.replays))
