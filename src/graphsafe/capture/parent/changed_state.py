"""The text and the data of a finding about a piece of state that steps change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from graphsafe.capture.shared.classify import is_expression
from graphsafe.report.model import CallSite
from graphsafe.report.probes.state import Change

CODES = {"grows": "GS402", "rebound": "GS703", "host": "GS702", "cached": "GS705"}
"Kind of a change -> the code of its rule."
_RATE = re.compile(r"\bparam_groups\[\d+\]\['lr'\]$")


def known(**values: Any) -> dict[str, Any]:
    """Return those values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def how_of_number(path: str, frames: Sequence[CallSite]) -> str | None:
    """Return the `how` of GS702 for a number that each step changes. If the line of the user's code is only a call,
    either a library changes the number, or the call takes the next number of an iterator."""
    if _RATE.search(path):
        return "rate"
    return "by-call" if frames and is_expression(frames[-1].path, frames[-1].line) else None


def words_of(change: Change, is_harmless: bool) -> dict[str, Any]:
    """Return the arguments of the finding. `is_harmless` is true if no replay reads the tensor that was replaced."""
    name, frames = change.name, change.frames
    expr = None
    if not frames:  # a library that the user's code calls may have changed it
        outer = re.split(r"[.\[]", name)[0]
        expr = f"no line of the user's code is known to change the state in `{outer}`"
    elif change.how in ("rebound", "host") and is_expression(frames[-1].path, frames[-1].line):
        expr = name  # the line is a call, whose text does not name the state
    how = "pooled" if change.how == "rebound" and is_harmless else None
    if change.how == "host" and isinstance(change.before, str):  # a number, not the length of a container
        how = how_of_number(name, frames)
    data = {"attribute": name, **known(before=change.before, after=change.after)}
    return {"expr": expr, "value": f"`{name}`", "how": how, "data": data}
