"""The clean process that children fork from: it has imported torch, and nothing of the user's.

A child forked here starts in a third of a second where a fresh one takes four. Nothing here may ask torch about CUDA
(`torch.cuda.is_available()` is enough): forked children could not use it afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys

from graphsafe.capture.job import Job


def serve(descriptor: int) -> None:
    """Fork a child for every job that arrives, tell how each ends, and take all of them along when the parent goes."""
    import torch

    from graphsafe.capture import child

    _import_what_torch_imports_late()
    parent = socket.socket(fileno=descriptor)
    running: dict[int, int] = {}
    try:
        parent.send(json.dumps({"ready": torch.__version__}).encode())
        while True:
            readable, _, _ = select.select([parent], [], [], 0.02 if running else None)
            if readable:
                message, descriptors, _, _ = socket.recv_fds(parent, 1 << 20, 1)
                if not message:
                    return
                request = json.loads(message)
                pid = os.fork()
                if pid == 0:
                    parent.close()
                    _become(descriptors[0])
                    child.main(Job.from_json(request["job"]))
                os.close(descriptors[0])
                running[pid] = request["id"]
                parent.send(json.dumps({"id": request["id"], "pid": pid}).encode())
            for pid in list(running):
                ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None:
                    continue
                # Before it is reaped, so that the number cannot have been given to another group meanwhile.
                _kill_group(pid)
                os.waitpid(pid, 0)
                status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                parent.send(json.dumps({"id": running.pop(pid), "status": status}).encode())
    except (BrokenPipeError, ConnectionResetError):
        return
    finally:
        for pid in running:
            _kill_group(pid)


def _import_what_torch_imports_late() -> None:
    """The first use of a dispatch mode imports 800 modules, for seconds; once here instead of in every child.

    Some of them ask whether there is a GPU, which must not start CUDA here: torch then asks the driver's library only.
    """
    import torch
    from torch.utils._python_dispatch import BaseTorchDispatchMode

    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        with BaseTorchDispatchMode():  # type: ignore[no-untyped-call]
            torch.empty(0)
    finally:
        os.environ.pop(name) if before is None else os.environ.__setitem__(name, before)


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


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
