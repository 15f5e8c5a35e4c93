"""Replays after each round of the target's refresh, and compares with the eager rounds; see `child/rounds.py`."""

from __future__ import annotations

from dataclasses import replace

import torch

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.answers.probes import ComparedRounds
from graphsafe.capture.child.probes.capture import Replays, comes, given_reference
from graphsafe.capture.child.rounds import ROUNDS, inputs_of_rounds, load_rounds
from graphsafe.capture.child.session import opened
from graphsafe.capture.child.state import generators_of
from graphsafe.capture.child.targets import TargetError, describe
from graphsafe.capture.shared.frames import error_frames
from graphsafe.capture.shared.job import EAGER_ROUNDS, Channel, Job
from graphsafe.report.probes.probe import Error


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        given = given_reference(session)
        if given is None:
            return
        built, reference = given
        with session.device.capture_stream():
            session.warm_up()
        recording = session.device.record(session.subject)
        if isinstance(recording, CaptureFailure):
            return
        Replays(session, recording, reference).run(built, first_step=False)
        del given, built  # they hold tensors that a refresh may free
        channel.phase("wait for the eager rounds")
        if not comes(session, ROUNDS, EAGER_ROUNDS):
            return
        rounds = load_rounds(channel.folder)
        channel.phase("further rounds")
        session.generators = generators_of(session.subject)
        replays = Replays(session, recording, replace(reference, steps=rounds))
        told = ComparedRounds()
        inputs = inputs_of_rounds(session, reference)
        for number in range(1, len(rounds) + 1):
            try:
                told = replace(told, number=number, checks=replays.once(number, next(inputs)))
            except TargetError as error:
                told = replace(told, error=Error(f"after replays {error.line}", frames=error_frames(error.__cause__)))
                break
            except torch.OutOfMemoryError as error:
                raise TargetError("step", describe(error)) from error
            except Exception as error:
                told = replace(told, error=Error(describe(error)))
                break
        channel.tell(told)
