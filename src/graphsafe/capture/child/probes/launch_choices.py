"""Captures the step again after each event, to find launch choices that the first graph froze.

The kernel, the grid or the number of parts that a step chooses may depend on a length that only the host knows. Replays
then give the right values at every length, and only their time shows that the choice was made for another length
(vllm#51119). So the first graph and a new graph are replayed in turn on the same state and timed. If the device has no
clock, the report names the other choice without its cost.

This probe runs in a separate child, after all replays were found to be right, so that its captures cannot disturb their
comparison.
"""

from __future__ import annotations

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.answers.probes import LaunchChoice, LaunchChoices
from graphsafe.capture.child.probes.before import PreCaptureState
from graphsafe.capture.child.probes.events import fire, inputs_of_event
from graphsafe.capture.child.probes.measure import interleaved_times
from graphsafe.capture.child.probes.twin import MAY_BE_CHANCE, Twins
from graphsafe.capture.child.session import CAPTURE_SEED, Session, opened
from graphsafe.capture.child.state import Snapshot
from graphsafe.capture.device.protocol import NotComparable, Recording
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.probes.twin import Difference

_SLOWER = 1.2
"A frozen choice is reported if its replays take this many times as long as those of a new capture."


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        session.warm_up_on_capture_stream()
        session.seed(CAPTURE_SEED)
        recording = session.record()
        if isinstance(recording, CaptureFailure):
            return
        channel.wait_to_be_alone()
        twins = Twins(session, recording, {})
        found: tuple[LaunchChoice, ...] = ()
        for number, name in enumerate(session.subject.events):
            fire(session, number, name)
            session.put_inputs(inputs_of_event(number))
            try:
                choice = _choice(session, twins, recording, name)
            except NotComparable:
                return
            found += () if choice is None else (choice,)
            channel.send(LaunchChoices(found))


def _choice(session: Session, twins: Twins, recording: Recording, event: str) -> LaunchChoice | None:
    """Capture the step now, compare the graph with the first graph, and put the state back. Return None if no frozen
    choice costs time."""
    session.channel.phase(f"capture after event {event}")
    start, state = PreCaptureState(session), Snapshot(session.device, session.subject, clear_caches=False)
    again = twins.record(CAPTURE_SEED)
    if session.ranks.any(isinstance(again, CaptureFailure)) or isinstance(again, CaptureFailure):
        return None
    start.bindings.put_back()
    differences = [one for one in recording.differences(again) if one.what != "address"]
    frozen, fresh = (times.median for times in interleaved_times(session, [recording.replay, again.replay], state))
    again.release()
    state.put_back()
    chosen = _chosen(differences, frozen, fresh)
    if not session.ranks.any(bool(chosen)):
        return None
    with session.ranks.alone():
        placed, causes, _ = twins.explained(chosen, start, CAPTURE_SEED)
    start.bindings.put_back()
    state.put_back()
    if not chosen:
        return None
    first = next((one for one in placed if one.frames), placed[0])
    return LaunchChoice(event, first, tuple(causes), frozen, fresh)


def _chosen(differences: list[Difference], frozen: float | None, fresh: float | None) -> list[Difference]:
    """Return the differences that are launch choices. If both graphs were timed, the differences are returned only if
    the frozen graph is slower."""
    if frozen is None or fresh is None:
        return [one for one in differences if one.what not in MAY_BE_CHANCE]
    return differences if frozen > _SLOWER * fresh else []
