"""Runs a child: opens the device, does one job on it, writes the result, and ends the process at once."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Mapping

from graphsafe.capture.answers.failure import Done, Fault, StateFailure, TargetFailure
from graphsafe.capture.child.preparation import note_modules
from graphsafe.capture.child.state import StateError
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.processes.descendants import die_with_parent
from graphsafe.capture.processes.originals import complain, leave, monotonic
from graphsafe.capture.processes.own_process import CHANGED, blamed_on_target
from graphsafe.capture.processes.stack_dump import write_when_asked
from graphsafe.capture.shared.frames import error_frames
from graphsafe.capture.shared.job import FAILED, Channel, Job
from graphsafe.failure import in_one_line

CHILDREN: Mapping[str, str] = {
    "devices": "graphsafe.capture.child.devices",
    "build": "graphsafe.capture.child.probes.construct",
    "step": "graphsafe.capture.child.probes.step",
    "reference": "graphsafe.capture.child.probes.reference",
    "capture": "graphsafe.capture.child.probes.capture",
    "events": "graphsafe.capture.child.probes.events",
    "diagnose": "graphsafe.capture.child.probes.diagnose",
    "shapes": "graphsafe.capture.child.probes.shapes",
    "timeline": "graphsafe.capture.child.probes.timeline",
    "measure": "graphsafe.capture.child.probes.measure",
    "pool": "graphsafe.capture.child.buckets.pool",
    "plan": "graphsafe.capture.plan.child.probe",
    "check": "graphsafe.capture.plan.child.check",
    "given": "graphsafe.capture.child.own_graphs.probe",
    "compiled": "graphsafe.capture.child.compiled.probe",
}
"Child -> the module whose `run(job, channel)` does its work."


def main(job: Job) -> None:
    """Run the job. Never returns: the process ends here without running exit handlers of the user's code."""
    die_with_parent()
    channel = Channel(job)
    write_when_asked(channel.folder, job.child)
    note_modules()
    sys.argv = [job.target]
    status = 0
    try:
        _work(job, channel)
    except BaseException as error:
        changes = blamed_on_target(error)
        if changes is not None:
            status = CHANGED
            complain(changes)
        else:
            status = FAILED
            line = in_one_line(error)
            try:
                channel.tell(Fault(line))
            except BaseException:
                complain(line)
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        leave(status)


def _work(job: Job, channel: Channel) -> None:
    """Do the job, and report its result or the reason why the target prevents a result."""
    try:
        channel.phase("start")
        importlib.import_module(CHILDREN[job.child]).run(job, channel)
        channel.tell(Done())
    except StateError as error:
        channel.tell(StateFailure(str(error)))
    except TargetError as error:
        channel.tell(TargetFailure(error.stage, error.line, error_frames(error.__cause__), monotonic()))
