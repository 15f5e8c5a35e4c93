"""The child that steps a target with graphs of its own, and compares with the reference, which was built without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphsafe.capture.probes.capture import Replays, given_reference
from graphsafe.capture.session import Session, opened

if TYPE_CHECKING:
    from graphsafe.capture.job import Channel, Job


class _Steps:
    """Steps of the target as it is, as `Replays` needs them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.outputs: Any = None

    def replay(self) -> None:
        self.outputs = self._session.step()


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        given = given_reference(session)
        if given is None:
            return  # nothing is known against them
        built, reference = given
        with session.device.capture_stream():
            session.warm_up()
        replays = Replays(session, _Steps(session), reference)  # type: ignore[arg-type]
        replays.run(built, first_step=False)
        channel.tell(given={"reason": replays.against("its own graphs"), "different": replays.different})
