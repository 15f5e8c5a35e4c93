"""The child that checks emitted code: it captures the step as the code does, replays it on changed inputs, and compares
with the reference as the capture child does."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from graphsafe.capture.plan.marks import CODE
from graphsafe.capture.probes.capture import Replays, given_reference
from graphsafe.capture.session import FIRST_SEED, Session, opened
from graphsafe.capture.targets import describe

if TYPE_CHECKING:
    from pathlib import Path

    from graphsafe.capture.job import Channel, Job


class _Emitted:
    """A step that emitted code has captured, as `Replays` needs it."""

    def __init__(self, planned: Any) -> None:
        self._planned = planned
        self.outputs = planned.outputs

    def replay(self) -> None:
        self._planned.replay()


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        given = given_reference(session)
        if given is None:
            channel.tell(check={"reason": "there is no independent reference to compare with"})
            return
        built, reference = given
        try:
            planned = _captured(session, channel.folder / CODE)
        except Exception as error:
            channel.tell(check={"reason": f"emitted code fails: {describe(error)}"})
            return
        replays = Replays(session, _Emitted(planned), reference)  # type: ignore[arg-type]
        # From the state of construction the code does not start again: that is what the plan was verified for.
        replays.run(built, first_step=False)
        channel.tell(check={"reason": replays.against("emitted code")})


def _captured(session: Session, code: Path) -> Any:
    spec = importlib.util.spec_from_file_location("graphsafe_emitted", code)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    with session.device.capture_stream():
        for k in range(session.job.warmup - 1):
            session.seed(FIRST_SEED + k)
            session.step()
    session.seed(FIRST_SEED + session.job.warmup - 1)
    subject = session.subject
    planned = module.capture(subject.fn, subject.args, subject.kwargs, warmup=0)
    session.device.synchronize()
    return planned
