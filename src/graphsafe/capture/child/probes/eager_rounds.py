"""Runs many rounds of the target's refresh, each followed by an eager step; see `child/rounds.py`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from graphsafe.capture.child.expected import StepResult
from graphsafe.capture.child.probes.capture import given_reference
from graphsafe.capture.child.rounds import (
    GOING_ON,
    ROUNDS,
    DeviceStateCopy,
    Rounds,
    can_compare_continued,
    inputs_of_continued_rounds,
    inputs_of_rounds,
    late_rounds,
)
from graphsafe.capture.child.session import PAIR, REPLAYS, Session, host_values, opened, save_values
from graphsafe.capture.child.state import generators_of, inputs_of, reachable_state
from graphsafe.capture.child.state.values import ADDRESS
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.child.time_left import TimeLeft, power_of_two
from graphsafe.capture.shared.job import Channel, Job

_CPU_SECONDS = {"predicted": 2.0, "measured": 6.0}
"""Evidence of the device -> number of seconds of CPU time after which no further round starts. On a GPU, a refresh may
act differently only in later rounds, and children that share the GPU wait for it."""
_SECONDS = 20.0
"No further round starts after this many seconds in total."
_MOST_BYTES = 256 * 2**20
"The largest number of bytes of outputs and state that are saved for all rounds together."
_STATE_BYTES = 2**20
"The most bytes of state that are compared, the smallest tensors first. Outputs show changes of larger tensors."


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        given = given_reference(session)
        if given is None:
            return
        reference = given[1]
        session.warm_up()
        # The program itself runs plain steps. But if the two kinds of steps differ by rounding, only steps along the
        # path of captures use the same kernels as replays.
        session.capture_path = reference.rounding is not None and not reference.refused
        for k in (*range(1, REPLAYS + 1), PAIR):
            session.put_inputs(k)
            session.path_step()
        before = reachable_state(session.subject).tensors
        session.path_step()
        after = reachable_state(session.subject).tensors
        changed = {path for step in reference.steps for path in step.values}
        channel.phase("further rounds")
        session.generators = generators_of(session.subject)
        # If a step binds a name to a new tensor, nothing uses the old one, so only tensors that keep their identity are
        # put back.
        rounds = Rounds(sorted(path for path in changed & after.keys() if after[path] is before.get(path)))
        kept = DeviceStateCopy(session, rounds.put_back)
        rounds.steps, rounds.is_whole = _rounds(session, inputs_of_rounds(session, kept))
        if rounds.is_whole:
            with contextlib.suppress(TargetError):
                rounds.late = late_rounds(session, kept, lambda: session.path_step(wait=False))
        save_values(channel, ROUNDS, rounds)
        # The file above is saved first, so that a device that fails from here on takes nothing away.
        if rounds.is_whole and can_compare_continued(session, reference):
            save_values(channel, GOING_ON, _rounds(session, inputs_of_continued_rounds(kept))[0])


def _rounds(session: Session, inputs: Iterator[int]) -> tuple[list[StepResult], bool]:
    """Run rounds until one fails, or until time or memory runs out. If time or memory runs out, the number of rounds is
    cut to a power of two. Return the rounds, and whether no round failed or was cut."""
    steps: list[StepResult] = []
    time_left, held = TimeLeft(_CPU_SECONDS[session.device.evidence], _SECONDS), 0
    try:
        for number in inputs:
            step = _round(session, number)
            if session.ranks.any(step is None) or step is None:
                return steps, False
            steps.append(step)
            held += sum(value.nbytes for values in (step.outputs, step.values) for value in values.values())
            if session.ranks.any(time_left.is_over(len(steps), held / _MOST_BYTES)):
                kept = power_of_two(len(steps))
                return steps[:kept], kept == len(steps)
    except TargetError:  # an event fails
        session.ranks.any(True)
        return steps, False
    return steps, True


def _round(session: Session, number: int) -> StepResult | None:
    """Run one round. Return None if it fails: a real program would have reset a position before."""
    try:
        session.put_inputs(number)
        outputs = session.outputs_of(session.path_step())
    except TargetError:
        return None
    state = _compared(session)
    values = {
        path: value
        for path, value in host_values(session.device, state).items()
        if value.dtype != torch.int64 or bool((value <= ADDRESS).all())  # addresses differ in each process
    }
    digests = session.device.digests({path: state[path] for path in values})
    return StepResult(host_values(session.device, outputs.tensors), dict(outputs.hosts), digests, values)


def _compared(session: Session) -> dict[str, torch.Tensor]:
    """Return the small tensors of state to compare."""
    inputs, left, found = inputs_of(session.subject), _STATE_BYTES, {}
    tensors = reachable_state(session.subject).tensors
    for path, tensor in sorted(tensors.items(), key=lambda item: (item[1].nbytes, item[0])):
        left -= tensor.nbytes
        if left < 0:
            break
        if path not in inputs:
            found[path] = tensor
    return found
