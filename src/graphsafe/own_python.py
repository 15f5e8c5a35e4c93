"""Starts Python processes that run graphsafe's own code. They import nothing from the folder in which they are started.

Python puts that folder first on the path, and a project may have its own `json.py` or `click.py` there. Python's
options `-I` and `-P` would also keep this folder off the path. But `-I` also ignores PYTHONPATH, which may be needed to
find graphsafe itself, and `-P` needs Python 3.11.
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
    """Return the environment of processes that run the user's code.

    Unless the user has set OMP_WAIT_POLICY, waiting threads of OpenMP sleep. Threads that spin would take the cores
    from other children that compute at the same time.
    """
    return {"OMP_WAIT_POLICY": "passive", **os.environ, "GRAPHSAFE": "1"}


def can_spawn_safely() -> bool:
    """Return whether `safe_spawning` works. It needs Python 3.11 or newer."""
    return sys.version_info >= (3, 11)


@contextmanager
def safe_spawning() -> Iterator[None]:
    """Keep the working directory off the path of new processes that `multiprocessing` starts in the block."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before
