"""A child's life: open the device, do one job inside it, write what came out, and go without ceremony."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Mapping
from dataclasses import asdict

from graphsafe.capture.job import FAILED, Channel, Job
from graphsafe.capture.lines.frames import error_frames
from graphsafe.capture.processes.descendants import die_with_parent
from graphsafe.capture.processes.originals import complain, leave, monotonic
from graphsafe.capture.processes.preparation import note_modules
from graphsafe.capture.processes.stack_dump import write_when_asked
from graphsafe.capture.state import StateError
from graphsafe.capture.targets import TargetError
from graphsafe.failure import in_one_line

CHILDREN: Mapping[str, str] = {
    "devices": "graphsafe.capture.device",
    "build": "graphsafe.capture.probes.construct",
    "step": "graphsafe.capture.probes.step",
    "reference": "graphsafe.capture.reference",
    "capture": "graphsafe.capture.probes.capture",
    "diagnose": "graphsafe.capture.probes.diagnose",
    "measure": "graphsafe.capture.probes.measure",
    "pool": "graphsafe.capture.buckets.pool",
    "plan": "graphsafe.capture.plan.probe",
    "check": "graphsafe.capture.plan.check",
    "given": "graphsafe.capture.own_graphs.probe",
    "compiled": "graphsafe.capture.compiled.probe",
}
"Child -> the module whose `run(job, channel)` is its work."


def main(job: Job) -> None:
    """Never returns: the process ends here, without running what the user's code registered for its end."""
    die_with_parent()
    channel = Channel(job)
    write_when_asked(channel.folder, job.child)
    note_modules()
    sys.argv = [job.target]
    status = 0
    try:
        channel.phase("start")
        importlib.import_module(CHILDREN[job.child]).run(job, channel)
        channel.tell(done=True)
    except StateError as error:
        channel.tell(state_error=str(error), done=True)
    except TargetError as error:
        calls = [asdict(frame) for frame in error_frames(error.__cause__)]
        reported = {"stage": error.stage, "line": error.line, "calls": calls, "at": monotonic()}
        channel.tell(target_error=reported, done=True)
    except BaseException as error:
        status = FAILED
        line = in_one_line(error)
        try:
            channel.tell(internal_error=line, done=True)
        except BaseException:
            complain(line)
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        leave(status)
