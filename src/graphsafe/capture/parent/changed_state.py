"""The words of a finding about a piece of state that steps change."""

from __future__ import annotations

import re
from typing import Any

from graphsafe.capture.parent.frozen_values import known
from graphsafe.capture.shared.classify import is_expression
from graphsafe.report.probes.state import Change

CODES = {"grows": "GS402", "rebound": "GS703", "host": "GS702", "cached": "GS705"}
"Kind of a change -> the code of its rule."


def words_of(change: Change, is_harmless: bool) -> dict[str, Any]:
    """Return the arguments of the finding. `is_harmless` says that no replay reads the tensor that was replaced."""
    name, frames = change.name, change.frames
    expr = None
    if not frames:  # a library that a line of the user calls may have changed it
        outer = re.split(r"[.\[]", name)[0]
        expr = f"no line of the user's code is known to change the state in `{outer}`"
    elif change.how in ("rebound", "host") and is_expression(frames[-1].path, frames[-1].line):
        expr = name  # the line is a call, whose text does not name the state
    how = "pooled" if change.how == "rebound" and is_harmless else None
    data = {"attribute": name, **known(before=change.before, after=change.after)}
    return {"expr": expr, "value": f"`{name}`", "how": how, "data": data}
