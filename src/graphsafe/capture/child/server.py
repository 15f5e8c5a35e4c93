"""A process from which children are forked, with a keeper for each child.

The first server has imported torch and none of the user's code. A child forked from this server starts in a third of a
second; a fresh process needs four seconds. No code in a server may ask torch about CUDA (not even with
`torch.cuda.is_available()`), because forked children could not use CUDA afterwards. Further servers are forked from the
first, one for each target, so that targets do not wait for each other.

Between a server and each child there is a process called the keeper. The keeper adopts all processes that the child's
descendants leave behind, even daemons, and ends them when the child ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from graphsafe.capture.child.main import main
from graphsafe.capture.processes.descendants import adopt_orphans, die_with_parent, end_descendants, end_group, reap
from graphsafe.capture.processes.originals import decode, encode, leave
from graphsafe.capture.shared.answers import Answers, written
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.capture.shared.serving import Branch, ChildState, End, Fork, ServerState

_MESSAGE_BYTES = 1 << 20


def start(descriptor: int, prepare: Callable[[], str | None], folder: str | None = None) -> NoReturn:
    """Serve the parent at the other end of this socket. Clean up when the parent is gone.

    `prepare` runs imports, and returns the reason if they must not be shared. `folder` holds the parent's temporary
    files; the server removes it if the parent was killed.
    """
    killed = False
    try:
        adopt_orphans()
        parent = socket.socket(fileno=descriptor)
        _tell(parent, ServerState(os.getpid()))
        refused = prepare()
        if refused is not None:
            _tell(parent, ServerState(os.getpid(), refused=refused))
        else:
            # Children collect garbage before they capture. The collection skips frozen objects. So the many imported
            # objects are frozen here; none of them is garbage.
            gc.collect()
            gc.freeze()
            _tell(parent, ServerState(os.getpid(), ready=True))
            killed = not serve(parent)
    finally:
        end_descendants()
        if killed and folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        # Exit at once: shutting down an interpreter that has imported torch takes a second.
        leave(0)


def serve(parent: socket.socket) -> bool:
    """Serve the parent's requests. Return True if the parent asked the server to end, False if the parent has
    exited."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(parent, _MESSAGE_BYTES, 2)
        reap()
        if not message:
            return False
        answers = Answers(decode(message.decode()))
        if End in answers:
            return True
        if os.fork() == 0:
            fork = answers.get(Fork)
            if fork is not None:
                _keep(parent, fork.number, fork.job, descriptors[0])
            _branch(parent, answers[Branch], *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(parent: socket.socket, number: int, job: Job, output: int) -> NoReturn:
    """Fork one child, report how it ends, and end the processes that it leaves behind."""
    try:
        adopt_orphans()
        die_with_parent()
        pid = os.fork()
        if pid == 0:
            parent.close()
            _become(output)
            main(job)
        os.close(output)
        _tell(parent, ChildState(number, pid))
        # The child is not reaped yet, so no other process group can have its number.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        end_group(pid)
        end_descendants()
        status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        _tell(parent, ChildState(number, pid, status))
    finally:
        leave(0)


def _branch(parent: socket.socket, request: Branch, descriptor: int, output: int) -> NoReturn:
    """Become a server with its own socket to the parent. This server may import the user's modules."""
    parent.close()
    die_with_parent()
    _become(output)
    if request.folder is not None:
        with contextlib.suppress(OSError):
            os.chdir(request.folder)
    what, job = request.imports, request.job

    def prepare() -> str | None:
        if what is None or job is None:
            return None
        from graphsafe.capture.child import preparation

        sys.argv = [job.where if what == "prepare" else job.target]
        try:
            if what == "follow":
                preparation.follow(Path(job.folder))
            elif what == "ahead":
                preparation.import_ahead(job)
            else:
                Channel(job).phase("import")
                preparation.prepare(job)
        except preparation.NotShareable as reason:
            return str(reason)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        return None

    start(descriptor, prepare)


def import_torch() -> None:
    """Import torch and graphsafe's modules once for all children, except dynamo, which is slow and seldom needed."""
    import torch
    import torch.utils._python_dispatch
    from torch.overrides import resolve_name

    from graphsafe.capture.child.preparation import asking_without_cuda
    from graphsafe.capture.child.work import CHILDREN

    with asking_without_cuda():
        torch.empty(0)
        # When torch (2.11) looks up the name of a function for the first time, it builds an index of all functions,
        # which takes a second.
        resolve_name(torch.add)
        for name in CHILDREN.values():
            importlib.import_module(name)


def _tell(parent: socket.socket, state: ServerState | ChildState) -> None:
    with contextlib.suppress(OSError):
        parent.send(encode(written(state)).encode())


def _become(output: int) -> None:
    """Start a process group, send output to the parent's pipe, and read no input."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
