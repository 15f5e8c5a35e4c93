"""Does the job of a child. Each kind of child has its own module."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import torch

from graphsafe.capture.answers.build import Devices, Ended, TargetFailure
from graphsafe.capture.child.state import StateError
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.processes.originals import monotonic
from graphsafe.capture.shared.frames import error_frames
from graphsafe.capture.shared.job import Channel, Job


def run(job: Job, channel: Channel) -> None:
    """List the GPUs of this machine. This is the job of the child `devices`."""
    channel.send(Devices(tuple(f"cuda:{index}" for index in range(torch.cuda.device_count()))))


CHILDREN: Mapping[str, str] = {
    "devices": "graphsafe.capture.child.work",
    "build": "graphsafe.capture.child.probes.construct",
    "step": "graphsafe.capture.child.probes.step",
    "reference": "graphsafe.capture.child.probes.reference",
    "capture": "graphsafe.capture.child.probes.capture",
    "events": "graphsafe.capture.child.probes.events",
    "eager-rounds": "graphsafe.capture.child.probes.eager_rounds",
    "rounds": "graphsafe.capture.child.probes.rounds",
    "choices": "graphsafe.capture.child.probes.launch_choices",
    "diagnose": "graphsafe.capture.child.probes.diagnose",
    "shapes": "graphsafe.capture.child.probes.shapes",
    "timeline": "graphsafe.capture.child.probes.timeline",
    "measure": "graphsafe.capture.child.probes.measure",
    "pool": "graphsafe.capture.child.buckets.pool",
    "plan": "graphsafe.capture.plan.child.probe",
    "check": "graphsafe.capture.plan.child.check",
    "given": "graphsafe.capture.child.own_graphs.probe",
    "compiled": "graphsafe.capture.child.compiled",
}
"Kind of child -> the module whose `run(job, channel)` does its work."


def work(job: Job, channel: Channel) -> None:
    """Do the job, and report how it ended. An error of the target is reported, not raised."""
    try:
        importlib.import_module(CHILDREN[job.child]).run(job, channel)
        channel.send(Ended("done"))
    except StateError as error:
        channel.send(Ended("state", str(error)))
    except TargetError as error:
        channel.send(TargetFailure(error.stage, error.line, error_frames(error.__cause__), monotonic()))
