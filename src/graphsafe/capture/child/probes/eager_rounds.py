"""Runs many rounds of the target's refresh, each followed by an eager step; see `child/rounds.py`."""

from __future__ import annotations

import time

import torch

from graphsafe.capture.child.expected import Expected, Stepped
from graphsafe.capture.child.probes.capture import given_reference
from graphsafe.capture.child.rounds import ROUNDS, inputs_of_rounds
from graphsafe.capture.child.session import PAIR, REPLAYS, Session, host_values, opened, save_values
from graphsafe.capture.child.state import generators_of, inputs_of, reach_of
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.shared.job import Channel, Job

_CPU_SECONDS, _SECONDS = 2.0, 20.0
"No further round begins after this much CPU time of the process, or this much time in all."
_MOST_BYTES = 256 * 2**20
"Number of bytes of outputs and state that all rounds together may hand over."
_STATE_BYTES = 2**20
"Number of bytes of state that are compared, the small tensors first. Larger ones show in the outputs."


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        given = given_reference(session)
        if given is None:
            return
        reference = given[1]
        session.warm_up()
        session.capture_path = not reference.refused
        for k in (*range(1, REPLAYS + 1), PAIR):
            session.put_inputs(k)
            session.path_step()
        session.path_step()
        save_values(channel, ROUNDS, _rounds(session, reference))


def _rounds(session: Session, reference: Expected) -> list[Stepped]:
    """Run rounds until one fails, or time or memory runs out. Their number is a power of two, so that it seldom depends
    on the machine's load."""
    session.channel.phase("further rounds")
    session.generators = generators_of(session.subject)
    steps: list[Stepped] = []
    begun, worked, held = time.monotonic(), time.process_time(), 0
    for number in inputs_of_rounds(session, reference):
        share = 2 - 1 / len(steps) if steps and len(steps) & (len(steps) - 1) == 0 else 1
        spent = (time.process_time() - worked) / _CPU_SECONDS, (time.monotonic() - begun) / _SECONDS
        if session.ranks.any(bool(steps) and share * max(*spent, held / _MOST_BYTES) > 1):
            break
        step = _round(session, number)
        if session.ranks.any(step is None) or step is None:
            break
        steps.append(step)
        held += sum(value.nbytes for values in (step.outputs, step.values) for value in values.values())
    return steps[: 1 << (len(steps).bit_length() - 1)] if steps else []


def _round(session: Session, number: int) -> Stepped | None:
    """Run one round; return None if it fails: a real program would have reset a position before."""
    try:
        session.put_inputs(number)
        outputs = session.outputs_of(session.path_step())
    except TargetError:
        return None
    state = _compared(session)
    digests = session.device.digests(state)
    values = host_values(session.device, outputs.tensors), host_values(session.device, state)
    return Stepped(values[0], dict(outputs.hosts), digests, values[1])


def _compared(session: Session) -> dict[str, torch.Tensor]:
    """Return the state to compare."""
    inputs, left, found = inputs_of(session.subject), _STATE_BYTES, {}
    tensors = reach_of(session.subject).tensors
    for path, tensor in sorted(tensors.items(), key=lambda item: (item[1].nbytes, item[0])):
        left -= tensor.nbytes
        if left < 0:
            break
        if path not in inputs:
            found[path] = tensor
    return found
