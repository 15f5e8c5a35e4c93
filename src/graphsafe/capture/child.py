"""A child's life: open the device, do one job inside it, write what came out, and go without ceremony."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Mapping

from graphsafe.capture.job import Channel, Job
from graphsafe.capture.state import StateError
from graphsafe.capture.targets import TargetError

CHILDREN: Mapping[str, str] = {
    "devices": "graphsafe.capture.device",
    "build": "graphsafe.capture.probes.construct",
    "step": "graphsafe.capture.probes.step",
    "reference": "graphsafe.capture.reference",
    "capture": "graphsafe.capture.probes.capture",
    "diagnose": "graphsafe.capture.probes.diagnose",
    "measure": "graphsafe.capture.probes.measure",
}
"Child -> the module whose `run(job, channel)` is its work."


def main(job: Job) -> None:
    """Never returns: the process ends here, without running what the user's code registered for its end."""
    _die_with_parent()
    channel = Channel(job)
    channel.phase("start")
    sys.argv = [job.target]
    status = 0
    try:
        importlib.import_module(CHILDREN[job.child]).run(job, channel)
        channel.tell(done=True)
    except StateError as error:
        channel.tell(state_error=str(error), done=True)
    except TargetError as error:
        channel.tell(target_error={"stage": error.stage, "line": error.line}, done=True)
    except BaseException as error:
        channel.tell(
            internal_error={"line": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}, done=True
        )
        status = 70
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _die_with_parent() -> None:
    """Ask the kernel to end this process when its parent dies, however the parent dies. Linux only."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
