"""The user's secret key, with which the files of the cache are sealed. Nobody else can make a file that a scan
accepts."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile

from graphsafe.files import read_regular, user_cache

LENGTH = 32
NAME = "cache-key"


def secret_key() -> bytes:
    """Return the secret key from the user's cache folder. The first call makes the key. Raises OSError."""
    file = user_cache() / NAME
    with contextlib.suppress(FileNotFoundError):
        key = read_regular(file, LENGTH)
        if len(key) == LENGTH:
            return key
    file.parent.mkdir(parents=True, exist_ok=True)
    # Only the user can read the file, and it is never half written. If two processes write it at the same time, the
    # later file stays.
    descriptor, beside = tempfile.mkstemp(dir=file.parent, prefix=f".{NAME}.")
    try:
        with os.fdopen(descriptor, "wb") as made:
            made.write(secrets.token_bytes(LENGTH))
        os.replace(beside, file)
    except BaseException:
        os.unlink(beside)
        raise
    return read_regular(file, LENGTH)
