"""Detects changes that a target makes to its process and that keep graphsafe from working in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

if sys.platform != "win32":
    import resource

CHANGED = 71
"The exit status of a child whose target has changed the process so that graphsafe cannot work in it."
CHANGES = "the target changed"
"The beginning of the line that such a child prints."

_stat = os.stat
_LIMITS = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC")
"Resource limits that can keep a process from writing files, importing modules or allocating memory."


def blamed_on_target(error: BaseException) -> str | None:
    """Return a line that names a change of this process by the target, if the change explains graphsafe's error.

    Changes count from the import of this module on. Returns None if the error may have another cause.
    """
    if not isinstance(error, (OSError, ImportError, MemoryError)):
        return None
    now = _state()
    changed = [name for name, before in _AT_FIRST.items() if now[name] != before and not _is_higher(now[name], before)]
    return f"{CHANGES} {' and '.join(changed)} of its process" if changed else None


def _is_higher(now: object, before: object) -> bool:
    """Return whether a limit was raised, as engines do with the number of open files."""
    return isinstance(now, int) and isinstance(before, int) and now > before


def _state() -> Mapping[str, object]:
    if sys.platform == "win32":
        return {}
    root = _stat("/")
    # -1 means no limit.
    limits = {name: resource.getrlimit(getattr(resource, name))[0] % 2**64 for name in _LIMITS}
    return {"the root directory": (root.st_dev, root.st_ino), "the user": (os.geteuid(), os.getegid()), **limits}


_AT_FIRST = _state()
