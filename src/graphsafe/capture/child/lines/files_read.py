"""Finds the files that the user's code reads in a step, and the files whose existence or state the code checks in every
step. Other programs may write these files, and files in `/proc` change by themselves.

Numbers in files of `/proc` can be changed for a step. Nothing else is changed, because a change may have effects: if a
step is told that a file is missing, for example, it might download the file.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import re
import sys
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
"""Files in these folders hold named numbers, and code may branch on one of these numbers. To test such branches, all
numbers are changed."""
_NUMBER = re.compile(r"\d+")
_SCALES = (0, 3, 1_000)
"Numbers in such files are multiplied by each of these factors."
_COMPILERS = re.compile(r"[\\/](torch[\\/]_(dynamo|inductor)|triton)[\\/]")
"Matches files of torch.compile and its backends."
_ASKS = ("stat", "lstat", "access", "listdir", "scandir")
"The functions of `os` that are called by `os.path.exists`, `os.path.getmtime`, `pathlib` and `glob`."
Variation = Callable[[], AbstractContextManager[None]]
_sinks: list[set[str]] = []


@dataclass
class FilesSeen:
    """The files that steps read, and the files that every step checks."""

    read: set[str] = field(default_factory=set)
    asked: set[str] | None = None
    "The files that every step so far has checked; None before the first step."
    _harmless: set[str] = field(default_factory=set)
    "The files on which no step depends. Later steps may read them again."

    @contextmanager
    def step(self) -> Iterator[None]:
        """Add the files that the user's code opens for reading in this block, and note the files that it checks."""
        _listen()
        _sinks.append(self.read)
        now = set[str]()

        def watched(original: Callable[..., Any]) -> Callable[..., Any]:
            def ask(path: Any = ".", *rest: Any, **named: Any) -> Any:
                name = _name(path)
                if name is not None and _asks_user():
                    now.add(name)
                return original(path, *rest, **named)

            return ask

        try:
            with replaced(*((os, name, watched(getattr(os, name))) for name in _ASKS)):
                yield
            self.asked = now if self.asked is None else self.asked & now
        finally:
            _sinks.pop()

    def variations(self) -> Iterator[tuple[str, tuple[Variation, ...]]]:
        """Yield each file whose numbers can be changed for a step, with the contexts in which its numbers are
        changed."""
        for path in sorted(self.read):
            if path.startswith(_WITH_NUMBERS):
                yield path, tuple(partial(_numbers_scaled, path, scale) for scale in _SCALES)

    def leave_out(self, path: str) -> None:
        """Leave out a file on which no step depends, even if later steps read it again."""
        self._harmless.add(path)

    def shown(self) -> tuple[str, ...]:
        """Return the files, as a report shows them."""
        found = (self.read - self._harmless) | (self.asked or set())
        return tuple(sorted(path if path.startswith(_OF_SYSTEM) else shown(path) for path in found))


@functools.cache
def _listen() -> None:
    """Add the audit hook. This happens only once, because Python cannot remove such a hook."""
    sys.addaudithook(_opened)


def _opened(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not _sinks:
        return
    path, _, flags = arguments
    is_read = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) == 0
    if isinstance(path, str) and is_read and not path.endswith(_SOURCE) and user_frames()[0] and not _is_compiling():
        _sinks[-1].add(path)


def _is_compiling() -> bool:
    """Return whether torch.compile is compiling. Compilers read headers, caches and their own temporary files. Compiled
    code does not depend on these files any more."""
    for frame in frames_from(sys._getframe(2)):
        file = frame.f_code.co_filename
        if is_user_file(file):
            return False
        if _COMPILERS.search(file):
            return True
    return False


def _name(path: Any) -> str | None:
    """Return the path of a file on which a step may depend; None for sources and for libraries."""
    try:
        name = os.fspath(path)
    except TypeError:  # the path is the number of an open file
        return None
    if not isinstance(name, str) or name.endswith(_SOURCE):
        return None
    return None if os.path.abspath(name).startswith((sys.prefix + os.sep, sys.base_prefix + os.sep)) else name


def _asks_user() -> bool:
    """Return whether the user's code makes this call, directly or through the standard library."""
    for frame in frames_from(sys._getframe(2)):
        file = frame.f_code.co_filename
        if is_user_file(file):
            return True
        if is_graphsafe_file(file) or "site-packages" in file or "dist-packages" in file:
            return False
    return False


@contextmanager
def _numbers_scaled(path: str, scale: int) -> Iterator[None]:
    """Multiply all numbers in a file by `scale` in this block."""
    original = builtins.open

    def opened(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if _name(file) != path:
            return original(file, mode, *rest, **named)
        with original(path, encoding="utf-8", errors="replace") as found:
            text = _NUMBER.sub(lambda number: str(int(number[0]) * scale), found.read())
        return io.BytesIO(text.encode()) if "b" in mode else io.StringIO(text)

    with replaced((builtins, "open", opened), (io, "open", opened)):
        yield
