"""Ends processes and their descendants, so that nothing that a target starts outlives its child. Only for Linux, except
`kill_group`."""

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
"Seconds in which killed processes should disappear. A process that waits for a driver can take this long."

_PATIENCE_WITH_CLEANERS = 1.0
_CLEANERS = (b"multiprocessing.resource_tracker", b"torch_shm_manager")


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, for any reason."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Let this process become the parent of descendants that lose their parent, in any session."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants() -> None:
    """Kill and reap the descendants of this process until there are none. Needs `adopt_orphans`.

    Python and torch have processes that remove shared memory of processes that have ended. These helper processes are
    given some time to finish.
    """
    began = time.monotonic()
    while reap() and time.monotonic() < began + _PATIENCE:
        spares = time.monotonic() < began + _PATIENCE_WITH_CLEANERS
        for pid in descendants(os.getpid()):
            if not (spares and _cleans_up(pid)):
                kill(pid)
        time.sleep(0.002)


def reap() -> bool:
    """Reap the children that have ended. Return whether there are other children."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def end_group(pid: int) -> None:
    """Kill the process group of a child that has ended, unless a process in the group is cleaning up. `end_descendants`
    ends that process later."""
    if not any(map(_cleans_up, descendants(os.getpid()))):
        kill_group(pid)


def _cleans_up(pid: int) -> bool:
    """Return whether this is the process of Python or torch that unlinks shared memory after the processes that made
    the memory have ended."""
    try:
        with open_file(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read()
    except OSError:
        return False
    return any(name in command for name in _CLEANERS)


def has_children() -> bool:
    """Return whether this process has children, running or not yet reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def descendants(ancestor: int) -> list[int]:
    """Return all descendants, running or not yet reaped. Parents come before their children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open_file(f"/proc/{name}/stat", "rb") as stat:
                    # The name of the command is in parentheses. It may contain any character, including parentheses.
                    parent = int(stat.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(ancestor, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


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
