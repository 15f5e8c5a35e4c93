"""What to send us when graphsafe itself fails."""

from __future__ import annotations

import platform
import shlex
import traceback
from collections.abc import Sequence

from graphsafe import __version__

_FRAMES = 6


def what_to_report(error: BaseException, arguments: Sequence[str]) -> str:
    """A short text: what failed and where, under which versions, and the command. Source lines of the user stay out."""
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
