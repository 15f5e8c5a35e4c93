"""Finds why a plain capture failed or missed work. The attempt is repeated with instruments, in a separate process."""

from __future__ import annotations

from graphsafe.capture.child.session import CAPTURE_SEED, opened
from graphsafe.capture.shared.job import Channel, Job


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        session.warm_up_on_capture_stream()
        session.seed(CAPTURE_SEED)
        channel.phase("capture, watched")
        diagnosis = session.device.diagnose(session.subject)
        if diagnosis is not None:
            channel.send(diagnosis)
