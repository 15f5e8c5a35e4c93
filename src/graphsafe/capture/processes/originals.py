"""What a child needs to answer, kept from before the user's code is imported, which may replace any of it.

A target that patches `open`, `json`, `os.replace` or `sys.stdout` changes its own process; its answer must still get
out. Import this before the user's code.
"""

from __future__ import annotations

import builtins
import json
import os
import time

open_file = builtins.open
rename = os.replace
leave = os._exit
monotonic = time.monotonic
sleep = time.sleep
encode = json.JSONEncoder(allow_nan=False).encode
"JSON text; escapes everything beyond ASCII, so lone surrogates get through."
decode = json.JSONDecoder().decode

_open, _write, _close = os.open, os.write, os.close
_CREATE, _APPEND, _REPLACE = os.O_WRONLY | os.O_CREAT, os.O_APPEND, os.O_TRUNC


def write_bytes(path: str, data: bytes, *, append: bool = False) -> None:
    """Raises OSError."""
    descriptor = _open(path, _CREATE | (_APPEND if append else _REPLACE), 0o600)
    try:
        while data:
            data = data[_write(descriptor, data) :]
    finally:
        _close(descriptor)


def read_text(path: str) -> str:
    """Raises OSError."""
    with open_file(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def complain(line: str) -> None:
    """To the pipe that the parent reads; for what cannot be told in a file."""
    try:
        _write(2, f"{line}\n".encode(errors="replace"))
    except OSError:
        return
