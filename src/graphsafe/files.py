"""Files that are there whole or not at all, and where this user's caches lie."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path


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
