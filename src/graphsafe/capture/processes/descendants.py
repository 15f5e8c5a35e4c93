"""Processes and their descendants: nothing that a target starts may outlive its child. Linux, but for `kill_group`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

from graphsafe.capture.processes.originals import open_file

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE = 5.0
"Seconds for killed processes to be gone; one that waits for a driver can take that long."


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent ends, however it does."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Descendants whose parent has ended become children of this process, whatever session they are in."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants() -> None:
    """Kill and reap all that descends from this process, until nothing does. Needs `adopt_orphans`."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def descendants(ancestor: int) -> list[int]:
    """Running or not yet reaped, parents before their children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open_file(f"/proc/{name}/stat", "rb") as stat:
                    # The command's name stands in parentheses and may hold anything, further ones too.
                    parent = int(stat.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(ancestor, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def kill_group(pid: int) -> None:
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(pid)], capture_output=True, check=False)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value)
