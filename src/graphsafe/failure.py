"""The text to send to the developers if graphsafe itself fails."""

from __future__ import annotations

import os
import platform
import shlex
import traceback
from collections.abc import Sequence

from graphsafe.version import __version__

FAULT = "graphsafe failed"
_FRAMES = 6
_OURS = os.path.dirname(os.path.abspath(__file__))


def in_one_line(error: BaseException) -> str:
    """Describe an error: `graphsafe failed: KeyError: 'x' (capture/compare.py:40)`. It works even if `str(error)`
    fails."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [place for place in places if place[0].startswith(_OURS)] or places
    where = f" ({os.path.relpath(ours[-1][0], _OURS)}:{ours[-1][1]})" if ours else ""
    return f"{FAULT}: {type(error).__name__}{': ' if text else ''}{text[:300]}{where}"


def what_to_report(error: BaseException, arguments: Sequence[str]) -> str:
    """Return a short text with the failure, the line that raised it, the versions and the command. It contains no
    source code of the user."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return "\n".join(
        [
            f"graphsafe: internal error: {type(error).__name__}: {error}",
            "This is a fault in graphsafe, not in your code. Please report it with these lines:",
            f"  graphsafe {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"  graphsafe {shlex.join(arguments)}",
            *(f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames),
        ]
    )
