"""Starts Python processes of graphsafe's own, which import nothing from the folder where they are started.

Python puts that folder first on the path, and a project may have its own `json.py` or `click.py` there. Python's option
`-I` would also ignore PYTHONPATH, through which graphsafe itself may be found, and `-P` needs Python 3.11.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[1])
CLEAN_PATH = f"import sys; '' in sys.path[:1] and sys.path.pop(0); sys.path.append({_ROOT!r}); "
"The first statements of code for `python -c`."


def command(code: str, *arguments: str) -> list[str]:
    """Return the command that runs `code` with `arguments` in `sys.argv`."""
    return [sys.executable, "-c", CLEAN_PATH + code, *arguments]


def environment() -> dict[str, str]:
    """Return the environment of processes that run the user's code. Unless the user says otherwise, waiting threads of
    OpenMP sleep: spinning threads would take the cores from other children that compute at the same time."""
    return {"OMP_WAIT_POLICY": "passive", **os.environ, "GRAPHSAFE": "1"}


def can_spawn_safely() -> bool:
    """Return whether `safe_spawning` works: from Python 3.11 on."""
    return sys.version_info >= (3, 11)


@contextmanager
def safe_spawning() -> Iterator[None]:
    """Make processes that `multiprocessing` starts afresh leave out the working directory."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before
