"""Finds variables of the functions that led to a capture, if captured code used the numbers or lists of numbers in
these variables.

An example is `limit = bucket(length)` in a function that makes graphs on demand: `graphs[n] = capture(n, limit)`. A
variable is compared only if a single place assigns it. This place must be in the loop that both captures and replays
or, without a loop, in the function that does both. An integer may be padded to a larger size, so it counts as different
only if it is larger than at the capture. The same holds for each integer in a list.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from graphsafe.run.child.names import locals_of
from graphsafe.run.child.source import function_of, loop_around, parameters

_NUMBERS = (bool, int, float)
_LONGEST = 4096
"A list with more elements than this is not compared."


@dataclass(frozen=True, slots=True)
class Variable:
    code: CodeType
    name: str
    value: Any
    line: int
    "The line of this function that led to the capture."

    def now(self, frames: Sequence[FrameType]) -> Any:
        """Return the variable's value in the innermost running call of its function, or None if it cannot be compared
        there."""
        frame = next((one for one in frames if one.f_code is self.code), None)
        if frame is None or not _is_comparable(self.code, self.name, self.line, frame.f_lineno):
            return None
        return _frozen(locals_of(frame).get(self.name))


def variables_of(frame: FrameType, name: str, value: Any) -> tuple[Variable, ...]:
    """Return the variable as a tuple of one element. The tuple is empty if it holds neither a number nor a list of
    numbers."""
    known = _frozen(value)
    return () if known is None else (Variable(frame.f_code, name, known, frame.f_lineno),)


def is_more(now: Any, captured: Any) -> bool:
    """Return whether `now` differs from the captured value in a way that padding does not explain."""
    if type(now) is not type(captured):
        return False
    if type(captured) is tuple:
        return len(now) > len(captured) or any(map(is_more, now, captured))
    return bool(now > captured) if type(captured) is int else bool(now != captured and now == now)


def _frozen(value: Any) -> Any:
    """Return a number as it is and a list of numbers as a tuple. Return None for any other value."""
    if type(value) in _NUMBERS:
        return value
    if type(value) in (list, tuple) and 0 < len(value) <= _LONGEST and all(type(one) in _NUMBERS for one in value):
        return tuple(value)
    return None


@functools.lru_cache(maxsize=1024)
def _is_comparable(code: CodeType, name: str, captured: int, replayed: int) -> bool:
    """Return whether a variable has the same meaning at the line that led to the capture and at the line that led to
    the replay."""
    function = function_of(code)
    if function is None:
        return False
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name]
    stores = [node.lineno for node in names if not isinstance(node.ctx, ast.Load)]
    if name in parameters(code):
        return not stores
    loops = {loop_around(code.co_filename, line) for line in (*stores, captured, replayed)}
    return len(stores) == len(loops) == 1 and stores[0] < min(captured, replayed)
