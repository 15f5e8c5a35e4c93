"""Checks emitted code: lets the code capture the step, replays the step on new inputs, and compares with the reference
as the capture child does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphsafe.capture.answers.plan import Checked
from graphsafe.capture.child.probes.capture import Replays, given_reference
from graphsafe.capture.child.session import Session, opened
from graphsafe.capture.child.targets import describe, module_of
from graphsafe.capture.plan.shared.marks import CODE
from graphsafe.capture.shared.job import Channel, Job


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        given = given_reference(session)
        if given is None:
            channel.send(Checked("there is no independent reference to compare with"))
            return
        built, reference = given
        try:
            planned = _captured(session, channel.folder / CODE)
        except Exception as error:
            channel.send(Checked(f"emitted code fails: {describe(error)}"))
            return
        replays = Replays(session, planned, reference)
        # The first step is not compared, because emitted code is not replayed from the state that construction left.
        replays.run(built, first_step=False)
        channel.send(Checked(replays.against("emitted code")))


def _captured(session: Session, code: Path) -> Any:
    module = module_of("graphsafe_emitted", code)
    session.warm_up_but_last()
    subject = session.subject
    planned = module.capture(subject.fn, subject.args, subject.kwargs, warmup=0)
    session.device.synchronize()
    return planned
