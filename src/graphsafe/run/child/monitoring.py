"""A tool number of `sys.monitoring`, which exists from Python 3.12 on."""

from __future__ import annotations

import sys

_TOOLS = (4, 3)
"Tool numbers that Python reserves for no kind of tool."
TAKEN = "other tools have taken the numbers of `sys.monitoring`"
TOO_OLD = "on a GPU that is seen from Python 3.12 on"


def taken_tool() -> tuple[int | None, str | None]:
    """Take the number of a tool; if there is none, return the reason."""
    if sys.version_info < (3, 12):
        return None, TOO_OLD
    tool = next((tool for tool in _TOOLS if sys.monitoring.get_tool(tool) is None), None)
    if tool is not None:
        sys.monitoring.use_tool_id(tool, "graphsafe")
    return tool, TAKEN if tool is None else None
