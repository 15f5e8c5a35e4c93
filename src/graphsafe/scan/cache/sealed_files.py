"""Stores strings in the files of a cache folder. Each file is sealed with the user's secret key.

A file with a wrong seal counts as missing, because it is damaged or comes from somebody else, such as the author of the
scanned repository. A file that does not begin as graphsafe's files do is neither read nor changed. If there is such a
file, or if the folder cannot be written, the scan stores nothing, and reports this in one line.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
from collections.abc import Callable
from pathlib import Path

from graphsafe.files import beginning, saved, write_atomically
from graphsafe.scan.cache.folder import make_folder

MAGIC = b"graphsafe's cache\n"
"The first bytes of each file that graphsafe writes."
MAX_BYTES = 128_000_000
_SEAL_LENGTH = 32


class SealedFiles:
    """The files of one folder. Processes may share the folder, and its files may be deleted at any time."""

    def __init__(self, folder: Path, secret: bytes, complain: Callable[[str], None]) -> None:
        """`complain` is called with one line if the folder cannot be used."""
        self._folder: Path | None = folder
        self._secret = secret
        self._complain = complain

    def text(self, name: str) -> str | None:
        """Return the string in a file, or None if there is no such file or graphsafe did not write it under this
        name."""
        file = self._usable(name)
        data = saved(file, MAX_BYTES) if file is not None else None
        if data is None:
            return None
        seal, text = data[len(MAGIC) :][:_SEAL_LENGTH], data[len(MAGIC) + _SEAL_LENGTH :]
        return text.decode("utf-8", "surrogatepass") if hmac.compare_digest(seal, self._seal(name, text)) else None

    def write(self, name: str, text: str) -> None:
        file = self._usable(name)
        data = text.encode("utf-8", "surrogatepass")
        if file is None or len(data) > MAX_BYTES - 1000:
            return
        try:
            make_folder(file.parent)
            write_atomically(file, MAGIC + self._seal(name, data) + data)
        except OSError as error:
            self._give_up(file, error.strerror or type(error).__name__)

    def keep_newest(self, pattern: str, limit: int) -> None:
        """Remove the files whose names match a pattern, except the `limit` files that were written last."""
        with contextlib.suppress(OSError):
            own = [file for file in self._folder.glob(pattern) if _is_own(file)] if self._folder is not None else []
            for old in sorted(own, key=lambda file: -file.stat().st_mtime)[limit:]:
                old.unlink()

    def _seal(self, name: str, text: bytes) -> bytes:
        content = b"\0".join((name.encode(), text))
        return hashlib.blake2b(content, key=self._secret, digest_size=_SEAL_LENGTH // 2).hexdigest().encode()

    def _usable(self, name: str) -> Path | None:
        """Return the file with this name, or None if it is not graphsafe's. It need not exist."""
        file = self._folder / name if self._folder is not None else None
        if file is not None and os.path.lexists(file) and not _is_own(file):
            self._give_up(file, "it is damaged, or graphsafe did not write it; remove it to have a new one")
            return None
        return file

    def _give_up(self, file: Path, why: str) -> None:
        """Use the folder no more during this scan."""
        self._folder = None
        self._complain(f"the cache {file} is not used: {why}")


def _is_own(file: Path) -> bool:
    """Return whether a file begins as graphsafe's files do. A link may lead to any file of the user, so it does not
    count."""
    return not file.is_symlink() and beginning(file).startswith(MAGIC)
