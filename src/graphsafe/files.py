"""Reading files that may be anything, writing files whole or not at all, and where this user's caches lie."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from pathlib import Path

MAX_HANDWRITTEN = 4_000_000
"Bytes of a configuration, a rule file or an ignore file: what people write is smaller."


def read_regular(path: str | Path, most: int) -> bytes:
    """What a regular file of at most `most` bytes holds.

    A FIFO would never answer and a device would never end, so neither is read: opening without waiting, then looking
    at what was opened, leaves no moment in which one file can take the place of another. Raises OSError, whose
    `strerror` says what the file is.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most // 1_000_000} MB", str(path))
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.readall()
    finally:
        os.close(descriptor)


def write_atomically(path: Path, text: str) -> None:
    """Write beside `path` and rename into place, so that no reader and no second writer sees half a file.

    A link is followed. What is no file, such as /dev/null or a pipe, is written into: a rename would take its place.
    Raises OSError.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8", newline="\n")
        return
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with beside.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def ensure_working_directory(path: str) -> None:
    """Make the working directory anew where it has been removed, so that the report can be written into it."""
    try:
        os.getcwd()
    except OSError:
        with contextlib.suppress(OSError):
            os.makedirs(path, exist_ok=True)
            os.chdir(path)


def from_here(path: str) -> str:
    """The path from the working directory; as it is where that has been removed."""
    try:
        return os.path.relpath(path)
    except (OSError, ValueError):
        return path


def user_cache() -> Path:
    """The folder of graphsafe's caches for this user; it need not exist."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "graphsafe"
