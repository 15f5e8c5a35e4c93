"""Keeps references to the functions that a child needs for its answer, because the user's code may replace them later.

A target that patches `open`, `json`, `os.replace` or `sys.stdout` changes its own process; the child's answer must
still get out. Import this module before the user's code.
"""

from __future__ import annotations

import builtins
import json
import os
import time

open_file = builtins.open
rename = os.replace
leave = os._exit
process_id = os.getpid
monotonic = time.monotonic
sleep = time.sleep
encode = json.JSONEncoder(allow_nan=False).encode
"Encode as JSON. Escapes all characters beyond ASCII, so that lone surrogates get through."
decode = json.JSONDecoder().decode

_open, _write, _close = os.open, os.write, os.close
_CREATE, _APPEND, _REPLACE = os.O_WRONLY | os.O_CREAT, os.O_APPEND, os.O_TRUNC


def write_bytes(path: str, data: bytes, *, append: bool = False) -> None:
    """Write or append bytes. Raises OSError."""
    descriptor = _open(path, _CREATE | (_APPEND if append else _REPLACE), 0o600)
    try:
        while data:
            data = data[_write(descriptor, data) :]
    finally:
        _close(descriptor)


def read_text(path: str) -> str:
    """Read a text file. Raises OSError."""
    with open_file(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def complain(line: str) -> None:
    """Print a line to the pipe that the parent reads, for a message that cannot be written to a file."""
    try:
        _write(2, f"{line}\n".encode(errors="replace"))
    except OSError:
        return
