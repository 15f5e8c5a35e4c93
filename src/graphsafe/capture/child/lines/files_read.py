"""Finds the files that the user's code reads, or of which it asks in each step whether they are there. Other programs
may write them, and files in `/proc` change by themselves.

Whether a file is there, its age, the names in a folder, and numbers in files of the system can be changed for a step
without a change of the files.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from graphsafe.capture.shared.frames import frames_from, is_graphsafe_file, is_user_file, user_frames
from graphsafe.capture.shared.places import shown
from graphsafe.capture.shared.replaced import replaced

_SOURCE = (".py", ".pyc", os.devnull)
"Files that the interpreter reads for itself, and the null device."
_OF_SYSTEM = ("/proc/", "/sys/", "/dev/")
_WITH_NUMBERS = "/proc/"
"Files here are numbers with names, so a change of all numbers changes what code may decide by."
_NUMBER = re.compile(r"\d+")
_SCALES = (0, 3, 1_000)
"Numbers in such files are multiplied by each of these."
_ASKS = ("stat", "lstat", "access", "listdir", "scandir")
"The functions of `os` behind `os.path.exists`, `os.path.getmtime`, `pathlib` and `glob`."
_LATER = 90_061
"Seconds by which a file is younger."
_SCAN = "scandir"
Variation = Callable[[], AbstractContextManager[None]]
_sinks: list[set[str]] = []
_protected: list[str] = []
"Files of which the step is told something else just now."
_CHANGES = frozenset(
    ["os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.utime"]
)
"Audit events of changes to files."


@dataclass
class FilesSeen:
    """The files that steps read, and those of which all steps ask."""

    read: set[str] = field(default_factory=set)
    asked: set[str] | None = None
    "None before the first step."
    _scanned: set[str] = field(default_factory=set)
    "Folders whose entries cannot be changed."

    @contextmanager
    def step(self) -> Iterator[None]:
        """Add the files that the user's code opens for reading in this block, and note those of which it asks."""
        _listen()
        _sinks.append(self.read)
        now = set[str]()

        def watched(original: Callable[..., Any]) -> Callable[..., Any]:
            def ask(path: Any = ".", *rest: Any, **named: Any) -> Any:
                name = _name(path)
                if name is not None and _asks_user():
                    now.add(name)
                    self._scanned |= {name} if original.__name__ == _SCAN else set()
                return original(path, *rest, **named)

            return ask

        try:
            with replaced(*((os, name, watched(getattr(os, name))) for name in _ASKS)):
                yield
            self.asked = now if self.asked is None else self.asked & now
        finally:
            _sinks.pop()

    def variations(self) -> Iterator[tuple[str, tuple[Variation, ...]]]:
        """Yield each file that can be changed for a step, with contexts in which it is changed."""
        for path in sorted((self.asked or set()) - self._scanned - self.read):
            yield path, tuple(partial(_asked_otherwise, path, is_young) for is_young in (False, True))
        for path in sorted(self.read):
            if path.startswith(_WITH_NUMBERS):
                yield path, tuple(partial(_numbers_scaled, path, scale) for scale in _SCALES)

    def leave_out(self, path: str) -> None:
        """Forget a file that decides nothing."""
        self.read.discard(path)
        self.asked = (self.asked or set()) - {path}

    def shown(self) -> tuple[str, ...]:
        """Return the files, as a report shows them."""
        found = self.read | (self.asked or set())
        return tuple(sorted(path if path.startswith(_OF_SYSTEM) else shown(path) for path in found))


@functools.cache
def _listen() -> None:
    """Add the audit hook. This happens once, since Python cannot remove such a hook."""
    sys.addaudithook(_opened)


def _opened(event: str, arguments: tuple[object, ...]) -> None:
    if _protected and event in _CHANGES:
        _refuse()
    if event != "open" or not (_sinks or _protected):
        return
    path, _, flags = arguments
    is_read = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) == 0
    if _protected and not is_read and path != os.devnull:
        _refuse()
    if _sinks and isinstance(path, str) and is_read and not path.endswith(_SOURCE) and user_frames()[0]:
        _sinks[-1].add(path)


def _refuse() -> None:
    """Raise PermissionError in the step's thread: it might write a new file over one that it takes to be missing."""
    if threading.current_thread() is threading.main_thread():
        raise PermissionError(errno.EACCES, "graphsafe refuses a change of files while it hides one", _protected[-1])


def _name(path: Any) -> str | None:
    """Return the path of a file that decides something; None for sources and for libraries."""
    try:
        name = os.fspath(path)
    except TypeError:  # the number of an open file
        return None
    if not isinstance(name, str) or name.endswith(_SOURCE):
        return None
    return None if os.path.abspath(name).startswith((sys.prefix + os.sep, sys.base_prefix + os.sep)) else name


def _asks_user() -> bool:
    """Return whether the user's code asks, itself or through the standard library."""
    for frame in frames_from(sys._getframe(2)):
        file = frame.f_code.co_filename
        if is_user_file(file):
            return True
        if is_graphsafe_file(file) or "site-packages" in file or "dist-packages" in file:
            return False
    return False


class _Younger:
    """The answer of `os.stat` for a file that was written later, with another size."""

    def __init__(self, found: os.stat_result) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._found, name)
        if name.endswith("time"):
            return value + _LATER
        return value + _LATER * 10**9 if name.endswith("time_ns") else value + (name == "st_size")

    def __getitem__(self, at: int) -> Any:
        return self._found[at] + (_LATER if at > 6 else at == 6)


@contextmanager
def _asked_otherwise(path: str, is_young: bool) -> Iterator[None]:
    """In this block, a file that is there is missing, and one that is missing is there. With `is_young`, a file that is
    there is younger, and a folder has one more name. The step may change no files."""

    def otherwise(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(given: Any = ".", *rest: Any, **named: Any) -> Any:
            if _name(given) != path:
                return original(given, *rest, **named)
            if name == "access":
                return not original(given, *rest, **named)
            if name == "listdir":
                return [*original(given), "0"] if is_young else []
            try:
                found = original(given, *rest, **named)
            except OSError:
                return original(os.devnull)
            if is_young:
                return _Younger(found)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

        return ask

    with replaced(*((os, name, otherwise(name, getattr(os, name))) for name in _ASKS if name != _SCAN)):
        _protected.append(path)
        try:
            yield
        finally:
            _protected.pop()


@contextmanager
def _numbers_scaled(path: str, scale: int) -> Iterator[None]:
    """In this block, all numbers in a file are multiplied."""
    original = builtins.open

    def opened(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if _name(file) != path:
            return original(file, mode, *rest, **named)
        with original(path, encoding="utf-8", errors="replace") as found:
            text = _NUMBER.sub(lambda number: str(int(number[0]) * scale), found.read())
        return io.BytesIO(text.encode()) if "b" in mode else io.StringIO(text)

    with replaced((builtins, "open", opened), (io, "open", opened)):
        yield
