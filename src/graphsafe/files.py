"""Safe reading of files of any kind, atomic writing, and the folder of this user's caches."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import shutil
import stat
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

MAX_HANDWRITTEN = 4_000_000
"The largest size in bytes of a configuration, a rule file or an ignore file. Files that people write are smaller."
_OF_HOST_NAMES = frozenset(("idna", "punycode"))
"Encodings that Python decodes so slowly that a large file would take hours. No source is written in them."
CHUNK = 65_536
"The number of bytes to read at once from a file whose size is given as 0, as in /proc."


def read_regular(path: str | Path, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes. Raises OSError, whose `strerror` says what is
    wrong."""
    with _opened(path) as (descriptor, size):
        if size > most:
            raise OSError(errno.EFBIG, f"larger than {most // 1_000_000} MB", str(path))
        # Read until the end of the file. For most files, one read is enough.
        return b"".join(iter(lambda: os.read(descriptor, max(size + 1, CHUNK)), b""))


def beginning(path: str | Path) -> bytes:
    """Return the first 200 bytes of a regular file, or `b""` if it cannot be read."""
    try:
        with _opened(path) as (descriptor, _):
            return os.read(descriptor, 200)
    except (OSError, ValueError):
        return b""


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[tuple[int, int]]:
    """Open a regular file, and yield its descriptor and its size in bytes. Raises OSError.

    Reading a FIFO could block forever, and a device may have no end. So the file is opened without blocking. Its kind
    is checked only then, so that nobody can replace the file between the check and the opening.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield descriptor, status.st_size
    finally:
        os.close(descriptor)


def saved(path: str | Path, most: int) -> bytes | None:
    """Return the content of a regular file of at most `most` bytes, or None if it cannot be read."""
    try:
        return read_regular(path, most)
    except (OSError, ValueError):
        return None


def encoding_of(data: bytes) -> str:
    """Return the encoding of a Python file by the rules of PEP 263. Raises SyntaxError or LookupError."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    if codecs.lookup(encoding).name in _OF_HOST_NAMES:
        raise LookupError(f"{encoding} is an encoding of host names: save the file as UTF-8")
    return encoding


def write_atomically(path: Path, content: str | bytes, *, before: bytes | None = None) -> None:
    """Write a temporary file beside `path` and rename it, so that nobody ever sees a partial file.

    A link is followed, and the new file has the mode of the file that it replaces. A device or a pipe is written
    directly, because renaming would replace it. If `before` is given, the file is replaced only if its content is still
    `before`. Raises OSError.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    if before is None and path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with beside.open("xb") as file:
            file.write(data)
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, beside)
        if before is not None and saved(path, len(before)) != before:
            raise OSError(errno.EBUSY, "has changed since it was read; not written", str(path))
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def leads_out(file: Path, folder: Path) -> bool:
    """Return whether a file is outside a folder when links are followed."""
    return not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))


def ensure_working_directory(path: str) -> None:
    """Create the working directory again if it has been removed, so that the report can be written there."""
    try:
        os.getcwd()
    except OSError:
        with contextlib.suppress(OSError):
            os.makedirs(path, exist_ok=True)
            os.chdir(path)


def from_here(path: str) -> str:
    """Return a path as reports write it: relative to the working directory, with forward slashes.

    If the working directory has been removed or is on another drive, the path stays as it is.
    """
    with contextlib.suppress(OSError, ValueError):
        path = os.path.relpath(path)
    return Path(path).as_posix()


def import_folder(file: Path) -> Path:
    """Return the absolute folder that contains a file or the outermost package around it. Imports in the file start
    from this folder."""
    folder = Path(os.path.abspath(file)).parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def with_real_folder(path: str | os.PathLike[str]) -> Path:
    """Return the path that a scan gives to a file.

    Links in the path of its folder are followed. If the file itself is a link, it keeps its name.
    """
    return Path(path).parent.resolve() / Path(path).name


def user_cache() -> Path:
    """Return the folder of graphsafe's caches for this user. It need not exist."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "graphsafe"
