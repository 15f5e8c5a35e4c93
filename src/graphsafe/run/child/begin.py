"""Begins the watch of a process once torch is imported. The watch ends with the process."""

from __future__ import annotations

import atexit
import os
import secrets
from pathlib import Path

from graphsafe.failure import in_one_line
from graphsafe.run import part
from graphsafe.run.child import watch as watches
from graphsafe.run.part import Options


def begin() -> None:
    """Watch this process as the environment asks. It is called once torch is imported, before any line of the program
    that uses it; further calls do nothing."""
    folder, token = os.environ.get(part.FOLDER), os.environ.get(part.PARENT)
    if watches.current is not None or not folder or not token or not Path(folder).is_dir():
        return
    token = _own(token, Path(folder))
    options = Options.parse(os.environ.get(part.OPTIONS, "{}"))
    try:
        watch = watches.current = watches.Watch(options, Path(folder), token)
    except Exception as error:  # an error of graphsafe must not stop the program
        part.write_part(Path(folder), token, {"fault": in_one_line(error)})
        return
    watch.write()
    atexit.register(watch.end)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=watch.before_fork, after_in_child=watch.fork)


def _own(token: str, folder: Path) -> str:
    """Return the token that `entry/sitecustomize.py` gave this process; or a new token if graphsafe was loaded in
    another way."""
    if token.partition("-")[0] == str(os.getpid()):
        return token
    parent, token = token, f"{os.getpid()}-{secrets.token_hex(4)}"
    os.environ[part.PARENT] = token
    part.note_start(folder, token, parent)
    return token
