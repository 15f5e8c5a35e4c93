"""Profiles an eager step and a replay over time, in a separate process, while no other process uses the device.

The simulated device has no clock, so the step child reports only the order of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.child.session import CAPTURE_SEED, Session, opened
from graphsafe.capture.child.targets import TargetError, users_code
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.probes.timeline import Timeline

_MOST = 4_000
"The largest number of a step's operations in a report."


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        session.warm_up_on_capture_stream()
        shared = not channel.wait_to_be_alone()
        seen = traced_step(session)
        if shared and seen.status == "pass":
            seen = replace(seen, reason="another target used the device meanwhile")
        channel.send(seen)
        if not job.captured:
            return
        channel.phase("capture")
        session.seed(CAPTURE_SEED)
        recording = session.record()
        if isinstance(recording, CaptureFailure):
            return
        channel.phase("a replay, profiled")
        session.put_inputs(1)
        replayed = _traced(session, recording.replay)
        work = tuple(one for one in replayed.operations or () if one.lane == "device")
        if work:
            begin = min(one.begin_us or 0.0 for one in work)
            end = max((one.begin_us or 0.0) + (one.us or 0.0) for one in work)
            seen = replace(seen, replay=work[:_MOST], replay_us=round(end - begin, 2))
        channel.send(seen)


def traced_step(session: Session) -> Timeline:
    """Run a step and return its timeline. If the step fails, the timeline is skipped and has the reason."""
    session.channel.phase("a warm step, in time")
    try:
        session.put_inputs(1)
        return _traced(session, session.subject)
    except TargetError as error:
        return Timeline("skipped", reason=error.line)


def _traced(session: Session, call: Callable[[], Any]) -> Timeline:
    with users_code("step", "the step failed"):
        seen = session.device.trace(call, session.channel.folder)
    operations = seen.operations or ()
    return replace(
        seen,
        operations=None if seen.operations is None else operations[:_MOST],
        gaps=None if seen.gaps is None else tuple(sorted(seen.gaps, key=lambda gap: -gap.us)[:_MOST]),
        left_out=max(len(operations) - _MOST, 0),
    )
