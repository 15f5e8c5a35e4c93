"""Keeps references to the functions that a child needs for its answer, because the user's code may replace them later.
Also detects whether the target has changed the process in a way that stops graphsafe's own code.

A target that patches `open`, `json`, `os.replace` or `sys.stdout` changes its own process, but the child must still be
able to answer. Import this module before the user's code.
"""

from __future__ import annotations

import builtins
import errno
import json
import os
import stat
import sys
import time
from collections.abc import Mapping

open_file = builtins.open
rename = os.replace
leave = os._exit
process_id = os.getpid
monotonic = time.monotonic
sleep = time.sleep
encode = json.JSONEncoder(allow_nan=False).encode
"Encodes as JSON. All characters beyond ASCII are escaped, so lone surrogates are preserved."
decode = json.JSONDecoder().decode

_open, _read, _write, _close, _fstat, _is_regular = os.open, os.read, os.write, os.close, os.fstat, stat.S_ISREG
MAX_ANSWER = 64_000_000
"The largest size in bytes of a file that a child writes."


def write_bytes(path: str, data: bytes, *, append: bool = False) -> None:
    """Write bytes to a file, or append them. Raises OSError."""
    with open_file(path, "ab" if append else "wb") as file:
        file.write(data)


def read_text(path: str, most: int = MAX_ANSWER) -> str:
    """Read a text file of at most `most` bytes. Raises OSError, also if the path is not a regular file: the target can
    replace the child's files by a FIFO, or by a link to an endless device.

    `files.read_regular` makes the same checks, but with functions of `os` that the target may have replaced.
    """
    descriptor = _open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        data = b""
        if not _is_regular(_fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        while len(data) <= most and (chunk := _read(descriptor, 1 << 20)):
            data += chunk
        if len(data) > most:
            raise OSError(errno.EFBIG, "too large", path)
        return data.decode("utf-8", "replace")
    finally:
        _close(descriptor)


def complain(line: str) -> None:
    """Print a line to the pipe that the parent reads. Use this function for a message that cannot be written to a
    file."""
    try:
        _write(2, f"{line}\n".encode(errors="replace"))
    except OSError:
        return


if sys.platform != "win32":
    import resource

CHANGED = 71
"The exit status of a child in whose process graphsafe cannot work, because the target has changed the process."
CHANGES = "the target changed"
"The beginning of the line that such a child prints."

_stat = os.stat
_LIMITS = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC")
"Resource limits that can keep a process from writing files, importing modules or allocating memory."


def blamed_on_target(error: BaseException) -> str | None:
    """Return a line that says how the target has changed this process, if this change explains graphsafe's error.
    Return None if the error may have another cause. Changes are noticed if they were made after the import of this
    module."""
    if not isinstance(error, (OSError, ImportError, MemoryError)):
        return None
    now = _state()
    changed = [name for name, before in _AT_FIRST.items() if now[name] != before and not _is_higher(now[name], before)]
    return f"{CHANGES} {' and '.join(changed)} of its process" if changed else None


def _is_higher(now: object, before: object) -> bool:
    """Return whether a limit was raised. Engines raise the limit on open files, for example."""
    return isinstance(now, int) and isinstance(before, int) and now > before


def _state() -> Mapping[str, object]:
    if sys.platform == "win32":
        return {}
    root = _stat("/")
    # A limit of -1 means no limit, so it becomes the largest number here.
    limits = {name: resource.getrlimit(getattr(resource, name))[0] % 2**64 for name in _LIMITS}
    return {"the root directory": (root.st_dev, root.st_ino), "the user": (os.geteuid(), os.getegid()), **limits}


_AT_FIRST = _state()
