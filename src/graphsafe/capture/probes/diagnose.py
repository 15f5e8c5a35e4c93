"""Why a plain capture failed, or missed work: the same attempt, instrumented, in a process of its own."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from graphsafe.capture.session import CAPTURE_SEED, opened

if TYPE_CHECKING:
    from graphsafe.capture.job import Channel, Job


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        with session.device.capture_stream():
            session.warm_up()
        session.seed(CAPTURE_SEED)
        channel.phase("capture, watched")
        diagnosis = session.device.diagnose(session.subject)
        channel.tell(diagnosis=None if diagnosis is None else asdict(diagnosis))
