"""Many rounds of a program. A round is a call of the refresh, then a step or a replay.

A refresh may act differently only in the tenth round: new weights, another page of a cache, a new scale. Host state
that the step's Python code changes may decide when, and replays do not change that state. So replays are compared with
eager steps in many more rounds than new inputs alone would need. The eager rounds and the replays run in two children.
Before the rounds, both children do exactly the same.

In the first rounds, state that steps change on the device is put back before each round, so that positions do not run
out of their buffers. Before some of these rounds an event of the target happens, and each event happens twice: the
second time, the event or a later refresh may act differently. In a few further rounds the device is busy while the host
goes on. They expose a refresh that should wait for the step and does not.

If eager steps repeat bit for bit, the last rounds are continued rounds: each starts from the state that the round
before left, as in a program. A refresh may then read what steps count on the device. The continued rounds stop when an
eager step fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphsafe.capture.child.events import fire
from graphsafe.capture.child.expected import Expected, StepResult
from graphsafe.capture.child.session import PAIR, Session, host_values
from graphsafe.capture.child.state import copies_of, reachable_state

ROUNDS = "rounds.pt"
"The file with the results of the eager rounds."
GOING_ON = "going-on.pt"
"The file with the results of the continued eager rounds."
MOST_ROUNDS = 256
"The largest number of rounds that start with state put back."
MOST_GOING_ON = 256
_FIRST_EVENT = 64
"The round before which the first event happens, counted from 0."
_EVENT_GAP = 20
"Number of rounds from one event to the next."
_EACH_EVENT = 2
"Number of times that each event happens."
LATE_INPUTS = range(PAIR + 1 + MOST_ROUNDS, PAIR + 7 + MOST_ROUNDS)
"The numbers of the inputs of the rounds in which the device is behind the host."
INPUTS_GOING_ON = range(LATE_INPUTS.stop, LATE_INPUTS.stop + MOST_GOING_ON)


@dataclass
class Rounds:
    """The results of the eager rounds."""

    put_back: Sequence[str]
    "State that steps change in place. It is put back before each of these rounds."
    steps: Sequence[StepResult] = ()
    is_whole: bool = False
    "Whether no round failed or was left out, so that another child can reach the state after them."
    late: Sequence[StepResult] = ()
    "The rounds in which the device was behind the host, with their outputs only."


class DeviceStateCopy:
    """A copy of state on the device, made when this object is created."""

    def __init__(self, session: Session, paths: Sequence[str]) -> None:
        self._session = session
        reached = reachable_state(session.subject).tensors
        # Keep no other tensors alive, so that a tensor which a refresh drops is freed.
        tensors = {path: reached[path] for path in paths if path in reached}
        self._pairs = [(tensors[path], values) for path, values in copies_of(session.device, tensors).items()]

    def put_back(self, in_order: bool = False) -> None:
        """Put the values back. With `in_order`, put back only what the device itself can put back, after the work that
        is still pending there. Memory of the host stays as it is, because pending work may write it."""
        device = self._session.device
        for tensor, values in self._pairs:
            if in_order and not (device.is_on_device(tensor) and device.is_on_device(values)):
                continue
            if tensor.shape == values.shape:  # the refresh may have changed the size
                device.store(tensor, values)


def late_rounds(session: Session, kept: DeviceStateCopy, run: Callable[[], Any]) -> list[StepResult]:
    """Run rounds in which the device is behind the host, without waits that the program does not make. In half of them
    the device is busy during the refresh, in the other half only during the step. The device itself copies the results
    in order, and puts its state back before each round, so that a difference follows from the delay alone. Return
    nothing if the device cannot run behind the host."""
    found = []
    for number in LATE_INPUTS:
        kept.put_back(in_order=True)
        meets_refresh = number % 2 == 0
        if meets_refresh and not session.device.keep_busy():
            return []
        session.put_inputs(number)
        if not meets_refresh and not session.device.keep_busy():
            return []
        outputs = session.outputs_of(run()).tensors
        found.append({path: session.device.copied(one) for path, one in outputs.items()})
    session.device.synchronize()
    return [StepResult(host_values(session.device, one), {}) for one in found]


def can_compare_continued(session: Session, reference: Expected) -> bool:
    """Return whether continued rounds can be compared. Tiny differences grow in such rounds, and the simulated device
    rounds differently if memory is aligned differently."""
    return reference.repeats and session.device.evidence == "measured"


def event_since(session: Session, at: int) -> str | None:
    """Return the event that happened last before round `at` (counted from 0). Return None before the first event, and
    when the last event is `_EVENT_GAP` rounds or more ago."""
    turn, events = (at - _FIRST_EVENT) // _EVENT_GAP, [*session.subject.events]
    return events[turn % len(events)] if 0 <= turn < _EACH_EVENT * len(events) else None


def inputs_of_rounds(session: Session, kept: DeviceStateCopy) -> Iterator[int]:
    """For each round, put the device's state back, run the event that is due, and yield the number of the round's
    inputs. Host state, and whatever else the refresh changes, is not put back. Raises TargetError if an event fails."""
    for at in range(MOST_ROUNDS):
        kept.put_back()
        event = event_since(session, at)
        if event is not None and (at - _FIRST_EVENT) % _EVENT_GAP == 0:
            fire(session, at, event)
        yield PAIR + 1 + at


def inputs_of_continued_rounds(kept: DeviceStateCopy) -> Iterator[int]:
    """Yield the number of the inputs of each continued round. Only before the first, the state is put back."""
    kept.put_back()
    yield from INPUTS_GOING_ON
