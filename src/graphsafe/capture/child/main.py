"""Runs one job in this process, reports how it ended, and exits at once.

This module does not import torch, so a server without torch can fork children too.
"""

from __future__ import annotations

import contextlib
import sys

from graphsafe.capture.answers.build import Ended
from graphsafe.capture.processes.descendants import die_with_parent
from graphsafe.capture.processes.originals import CHANGED, blamed_on_target, complain, leave
from graphsafe.capture.processes.stack_dump import write_when_asked
from graphsafe.capture.shared.job import FAILED, Channel, Job
from graphsafe.failure import in_one_line


def main(job: Job) -> None:
    """Run the job. Never returns: the process exits here without the exit handlers of the user's code."""
    die_with_parent()
    channel = Channel(job)
    write_when_asked(channel.folder, job.child)
    sys.argv = [job.target]
    status = 0
    try:
        channel.phase("start")
        from graphsafe.capture.child.work import work

        work(job, channel)
    except BaseException as error:
        changes = blamed_on_target(error)
        if changes is not None:
            status = CHANGED
            complain(changes)
        else:
            status = FAILED
            line = in_one_line(error)
            try:
                channel.send(Ended("fault", line))
            except BaseException:
                complain(line)
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        leave(status)
