"""A tool of `sys.monitoring`, which exists since Python 3.12."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

_TOOLS = (4, 3, 5)
"""The tool numbers that graphsafe tries: two that Python does not reserve, and the number for optimizers, which is not
used in practice."""
TAKEN = "other tools have taken the numbers of `sys.monitoring`"
TOO_OLD = "on a GPU, they can be seen only with Python 3.12 or newer"


def disable() -> object:
    """Return the value with which a callback asks for no more events of this instruction."""
    if sys.version_info >= (3, 12):
        return sys.monitoring.DISABLE
    return None


class Monitor:
    """One tool of `sys.monitoring`, from its creation until `close`. If no tool number is free, the tool gets no
    events, and `problem` is the reason."""

    def __init__(self, heard: dict[str, Callable[..., Any]]) -> None:
        """`heard` has a callback for each kind of event that the tool may receive, such as `LINE` or `PY_RETURN`."""
        self.problem: str | None = TOO_OLD
        self._heard = tuple(heard)
        self._tool: int | None = None
        if sys.version_info >= (3, 12):
            self._tool = next((tool for tool in _TOOLS if sys.monitoring.get_tool(tool) is None), None)
            self.problem = TAKEN if self._tool is None else None
            if self._tool is not None:
                sys.monitoring.use_tool_id(self._tool, "graphsafe")
                for name, call in heard.items():
                    sys.monitoring.register_callback(self._tool, getattr(sys.monitoring.events, name), call)

    def __bool__(self) -> bool:
        return self._tool is not None

    def hear(self, *names: str, of: CodeType | None = None) -> None:
        """Receive exactly these kinds of events from now on, from one function or from all functions."""
        if self._tool is not None and sys.version_info >= (3, 12):
            events = sum(getattr(sys.monitoring.events, name) for name in names)
            if of is None:
                sys.monitoring.set_events(self._tool, events)
            else:
                sys.monitoring.set_local_events(self._tool, of, events)

    def close(self) -> None:
        if self._tool is not None and sys.version_info >= (3, 12):
            # Freeing the number alone would leave events and callbacks registered.
            sys.monitoring.set_events(self._tool, 0)
            for name in self._heard:
                sys.monitoring.register_callback(self._tool, getattr(sys.monitoring.events, name), None)
            sys.monitoring.free_tool_id(self._tool)
        self._tool = None
