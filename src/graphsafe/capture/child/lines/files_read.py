"""Finds the files that the user's code reads. Other programs may write them; files in `/proc` change by themselves."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from graphsafe.capture.shared.frames import user_frames
from graphsafe.capture.shared.places import shown

_SOURCE = (".py", ".pyc", os.devnull)
"Files that the interpreter reads for itself, and the null device."
_OF_SYSTEM = ("/proc/", "/sys/", "/dev/")
_sinks: list[set[str]] = []


@contextmanager
def files_read_seen(found: set[str]) -> Iterator[None]:
    """Add the path of each file that the user's code opens for reading in this block to `found`."""
    _listen()
    _sinks.append(found)
    try:
        yield
    finally:
        _sinks.pop()


@functools.cache
def _listen() -> None:
    """Add the audit hook. This happens once, since Python cannot remove such a hook."""
    sys.addaudithook(_opened)


def _opened(event: str, arguments: tuple[object, ...]) -> None:
    if not _sinks or event != "open":
        return
    path, _, flags = arguments
    is_read = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) == 0
    if isinstance(path, str) and is_read and not path.endswith(_SOURCE) and user_frames()[0]:
        _sinks[-1].add(path if path.startswith(_OF_SYSTEM) else shown(path))
