"""Finds the files of the system that user code opens: system files change without the program, as a clock does."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from graphsafe.capture.shared.frames import user_frames

_FOLDERS = ("/proc/", "/sys/")
_sinks: list[set[str]] = []


@contextmanager
def system_files_seen(found: set[str]) -> Iterator[None]:
    """Add the path of each file of the system that user code opens inside to a set."""
    _listen()
    _sinks.append(found)
    try:
        yield
    finally:
        _sinks.pop()


@functools.cache
def _listen() -> None:
    """Add the hook once, since Python has no way to remove it."""
    sys.addaudithook(_opened)


def _opened(event: str, arguments: tuple[object, ...]) -> None:
    if (
        _sinks
        and event == "open"
        and isinstance(arguments[0], str)
        and arguments[0].startswith(_FOLDERS)
        and user_frames()[0]
    ):
        _sinks[-1].add(arguments[0])
