"""Many rounds of a program: its refresh, then a step or a replay.

A refresh may act differently only in the tenth round (new weights, another page of a cache, a new scale). Host state
that the step's Python code changes may decide when, and replays do not change that state. So replays are compared with
eager steps in many more rounds than new inputs alone need. The eager rounds and the replays run in two children, and
before the rounds each does exactly what the other does.

State that steps change on the device is put back before each of the first rounds, so that positions do not run out of
their buffers. Before some of them the target's events happen again, in turn: the second one of a kind may do something
else, and so may a refresh after it. In a few rounds after these the device is busy while the host goes on, so that a
refresh which should wait for the step shows itself. If eager steps repeat themselves bit for bit, the last rounds go on
from each other, as a program does: a refresh may read what steps count on the device. They end where an eager step
fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from graphsafe.capture.child.events import fire
from graphsafe.capture.child.expected import Expected, Stepped
from graphsafe.capture.child.session import PAIR, Session, host_values, load_values
from graphsafe.capture.child.state import copies_of, reach_of

ROUNDS = "rounds.pt"
"The file in which the eager rounds are handed over."
GOING_ON = "going-on.pt"
"The file of the eager rounds that go on from each other."
MOST_ROUNDS = 256
"The largest number of rounds before which state is put back."
MOST_GOING_ON = 128
_FIRST_EVENT = 64
"The round, from 0 on, before which the first event happens."
_EVENT_GAP = 20
"The number of rounds from one event to the next."
_EACH_EVENT = 2
"Number of times that each event happens."
LATE_INPUTS = range(PAIR + 1 + MOST_ROUNDS, PAIR + 7 + MOST_ROUNDS)
"The inputs of further rounds, in which the device is behind the host."
INPUTS_GOING_ON = range(LATE_INPUTS.stop, LATE_INPUTS.stop + MOST_GOING_ON)


@dataclass
class Rounds:
    """The results of eager rounds."""

    put_back: Sequence[str]
    "The state that steps change in place, which is put back before each of these rounds."
    steps: Sequence[Stepped] = ()
    is_whole: bool = False
    "Whether no round failed or was left out, so that another child can get here."
    late: Sequence[Stepped] = ()
    "The rounds in which the device was behind the host; outputs only."

    @staticmethod
    def load(folder: Path) -> Rounds:
        found: Rounds = load_values(folder / ROUNDS)
        return found


class Kept:
    """State of the device, as it was when this was made."""

    def __init__(self, session: Session, paths: Sequence[str]) -> None:
        self._session = session
        reached = reach_of(session.subject).tensors
        # Only these are held, so that memory is freed which a refresh drops.
        self._tensors = [reached[path] for path in paths if path in reached]
        self._copies = copies_of(session.device, self._tensors)

    def put_back(self) -> None:
        self._put_back(zip(self._tensors, self._copies, strict=True))

    def put_back_in_order(self) -> None:
        """Put back what the device itself can put back, after the work that is still pending there. Memory of the host
        stays as it is, because pending work may write it."""
        pairs = zip(self._tensors, self._copies, strict=True)
        self._put_back(pair for pair in pairs if all(self._session.device.is_on_device(one) for one in pair))

    def _put_back(self, pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        for tensor, values in pairs:
            if tensor.shape == values.shape:  # else the refresh has given it another size
                self._session.device.store(tensor, values)


def late_rounds(session: Session, kept: Kept, run: Callable[[], Any]) -> list[Stepped]:
    """Run rounds in which the device is behind the host, without waits that the program does not make. In one half of
    them the refresh meets a busy device, in the other half the step does. The device itself copies the results, in
    order, and puts its state back before each round, so that a difference follows from the delay alone. Return nothing
    if this device cannot run behind the host."""
    found = []
    for number in LATE_INPUTS:
        kept.put_back_in_order()
        meets_refresh = number % 2 == 0
        if meets_refresh and not session.device.fall_behind():
            return []
        session.put_inputs(number)
        if not meets_refresh and not session.device.fall_behind():
            return []
        outputs = session.outputs_of(run()).tensors
        found.append({path: session.device.copied(one) for path, one in outputs.items()})
    session.device.synchronize()
    return [Stepped(host_values(session.device, one), {}) for one in found]


def goes_on(session: Session, reference: Expected) -> bool:
    """Return whether a round may start from the state that the last one left, where tiny differences would grow. The
    simulated device rounds differently where memory is aligned differently."""
    return reference.repeats and session.device.evidence == "measured"


def event_since(session: Session, at: int) -> str | None:
    """Return the event that happened in the last rounds up to round `at` (from 0 on), if one did."""
    turn, events = (at - _FIRST_EVENT) // _EVENT_GAP, [*session.subject.events]
    return events[turn % len(events)] if 0 <= turn < _EACH_EVENT * len(events) else None


def inputs_of_rounds(session: Session, kept: Kept) -> Iterator[int]:
    """Yield the number of each round's inputs, after state of the device was put back and an event happened. Host
    state, and what else the refresh changes, stays. Raises TargetError if an event fails."""
    for at in range(MOST_ROUNDS):
        kept.put_back()
        event = event_since(session, at)
        if event is not None and (at - _FIRST_EVENT) % _EVENT_GAP == 0:
            fire(session, at, event)
        yield PAIR + 1 + at


def inputs_going_on(kept: Kept) -> Iterator[int]:
    """Yield the number of each round's inputs; state of the device is put back once, before the first."""
    kept.put_back()
    yield from INPUTS_GOING_ON
