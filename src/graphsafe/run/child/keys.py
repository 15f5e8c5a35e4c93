"""Finds host values that a capture froze, and replays for which the program has other values: the graph's key is too
coarse.

The values are arguments of the function that captures, read in the captured statements, and the same names in its
callers. A replay under one of these functions, called with another value, replays a graph for the old value.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from graphsafe.capture.shared.trees import tree_of
from graphsafe.report.model import CallSite
from graphsafe.report.source import file_lines
from graphsafe.run.child.names import locals_of

_SCALARS = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Stale:
    """An argument that had another value when the graph was captured."""

    name: str
    captured: str
    now: str
    frames: tuple[CallSite, ...]
    "The frames of the replay."


class Key:
    """The values that one capture froze: function -> its arguments and their values."""

    def __init__(self, frames: Sequence[FrameType] = ()) -> None:
        """`frames` are the user's, from the capturing one outwards."""
        self._values: dict[CodeType, dict[str, Any]] = {}
        used: Mapping[str, Any] | None = None
        for frame in frames:
            given = _arguments(frame)
            if used is None:
                names = _names_in_capture(frame.f_code.co_filename, frame.f_lineno)
                used = {name: value for name, value in given.items() if name in names}
            passed_on = {name: value for name, value in given.items() if name in used and _same(used[name], value)}
            if passed_on:
                self._values.setdefault(frame.f_code, passed_on)

    def texts(self) -> dict[str, str]:
        """Return the arguments and their values, those of inner functions first."""
        found: dict[str, str] = {}
        for values in self._values.values():
            found = {**{name: repr(value)[:80] for name, value in values.items()}, **found}
        return found

    def differs(self, frames: Sequence[FrameType]) -> tuple[str, str, str] | None:
        """Return the name, the value at capture and the value now, if a replay under `frames` has another value; else
        None."""
        for frame in frames if self._values else ():
            captured = self._values.get(frame.f_code)
            if captured is None:
                continue
            given = _arguments(frame)
            for name, value in captured.items():
                if name in given and not _same(given[name], value):
                    return name, repr(value), repr(given[name])
            return None
        return None


def _arguments(frame: FrameType) -> dict[str, Any]:
    """Return the numbers and texts with which a function was called."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    shown = locals_of(frame) if names else {}
    return {name: shown[name] for name in names if type(shown.get(name)) in _SCALARS}


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other or one != one)


@functools.lru_cache(maxsize=64)
def _names_in_capture(path: str, line: int) -> frozenset[str]:
    """Return the names that the statements of a `with torch.cuda.graph(...)` read; none for captures written in another
    way."""
    tree = tree_of(file_lines(path))
    withs = [node for node in ast.walk(tree) if isinstance(node, ast.With) and _holds(node, line)]
    inner = max(withs, key=lambda node: node.lineno, default=None)
    body = [] if inner is None else [node for statement in inner.body for node in ast.walk(statement)]
    return frozenset(node.id for node in body if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))


def _holds(node: ast.With, line: int) -> bool:
    head = any("graph" in ast.unparse(item.context_expr) for item in node.items)
    return head and node.lineno <= line <= (node.end_lineno or line)
