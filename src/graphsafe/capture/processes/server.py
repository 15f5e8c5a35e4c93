"""A process that children fork from, and what watches each of them.

The first one has imported torch, and nothing of the user's: a child forked there starts in a third of a second where a
fresh one takes four. Nothing in it may ask torch about CUDA (`torch.cuda.is_available()` is enough), for forked
children could not use it afterwards. Others branch off from it: one for each target, so that targets do not wait for
each other.

Between a server and each child stands a keeper: it adopts what the child's descendants leave behind, daemons too, and
ends all of them with the child.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from graphsafe.capture import child
from graphsafe.capture.job import Channel, Job
from graphsafe.capture.processes import preparation
from graphsafe.capture.processes.descendants import adopt_orphans, die_with_parent, end_descendants, kill_group
from graphsafe.capture.processes.originals import decode, encode, leave
from graphsafe.capture.processes.preparation import NotShareable, asking_without_cuda

_MESSAGE_BYTES = 1 << 20


def start(descriptor: int, prepare: Callable[[], None]) -> NoReturn:
    """Serve the parent at the other end of this socket, and leave nothing behind when it is gone."""
    try:
        adopt_orphans()
        parent = socket.socket(fileno=descriptor)
        _tell(parent, pid=os.getpid())
        try:
            prepare()
        except NotShareable as reason:
            _tell(parent, refused=str(reason))
        else:
            # Children look for garbage before they capture; among what was imported there is none, and it is much.
            gc.collect()
            gc.freeze()
            _tell(parent, ready=True)
            serve(parent)
    finally:
        end_descendants()
        # At once: to take down an interpreter that has imported torch takes a second.
        leave(0)


def serve(parent: socket.socket) -> None:
    """Fork what the parent asks for: `job` a child, `branch` a server that has imported more."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(parent, _MESSAGE_BYTES, 2)
        _reap()
        if not message:
            return
        request = decode(message.decode())
        if os.fork() == 0:
            if "id" in request:
                _keep(parent, request["id"], Job.from_json(request["job"]), descriptors[0])
            _branch(parent, request, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(parent: socket.socket, number: int, job: Job, output: int) -> NoReturn:
    """Fork one child, say how it ends, and end what it has left."""
    try:
        adopt_orphans()
        die_with_parent()
        pid = os.fork()
        if pid == 0:
            parent.close()
            _become(output)
            child.main(job)
        os.close(output)
        _tell(parent, id=number, pid=pid)
        # Not reaped yet, so that its number cannot have been given to another group meanwhile.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        kill_group(pid)
        end_descendants()
        _tell(parent, id=number, status=ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)
    finally:
        leave(0)


def _branch(parent: socket.socket, request: Mapping[str, Any], descriptor: int, output: int) -> NoReturn:
    """Become a server with a parent's socket of its own, in which the user's modules may be imported."""
    parent.close()
    die_with_parent()
    _become(output)
    what = request["branch"]

    def prepare() -> None:
        if what is None:
            return
        job = Job.from_json(request["job"])
        sys.argv = [job.where if what == "prepare" else job.target]
        if what == "follow":
            preparation.follow(Path(job.folder))
        else:
            Channel(job).phase("import")
            preparation.prepare(job)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()

    start(descriptor, prepare)


def import_torch() -> None:
    """And what torch imports late: the first use of a dispatch mode imports 800 modules, for seconds; once here instead
    of in every child. The same for graphsafe's own modules."""
    import torch
    from torch.utils._python_dispatch import BaseTorchDispatchMode

    with asking_without_cuda(), BaseTorchDispatchMode():  # type: ignore[no-untyped-call]
        torch.empty(0)
        for name in child.CHILDREN.values():
            importlib.import_module(name)


def _tell(parent: socket.socket, **message: Any) -> None:
    with contextlib.suppress(OSError):
        parent.send(encode(message).encode())


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(output: int) -> None:
    """A process group of its own, output to the parent's pipe, no input."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
