"""Finds host numbers that a capture froze, and replays for which the program has changed them.

The simulated device sees the numbers that captured operations are given. One of them counts if the running statement
reads it off an object or a module, and nothing else in the statement has this value: `grad * self.lr`. The program must
have had the captured value at the first replay; else it may choose graphs in another way. It must not have a graph for
the new value, nor run the line eagerly with it. The end of a slice may be smaller than at the capture: it is padded.
"""

from __future__ import annotations

import ast
import functools
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from graphsafe.capture.device.sim.effects import op_name
from graphsafe.run.child.expressions import names_of, statement_at, value_of
from graphsafe.run.child.names import attributes_of, user_frames_now, weak_to

_SLICE = "aten::slice"
_NUMBERS = frozenset(
    f"aten::{name}{suffix}"
    for name in (
        *("add", "sub", "rsub", "mul", "div", "pow", "remainder", "fmod", "floor_divide", "lerp", "addcmul", "addcdiv"),
        *("eq", "ne", "lt", "le", "gt", "ge", "fill", "masked_fill", "clamp", "clamp_min", "clamp_max", "where"),
    )
    for suffix in ("", "_")
)
"Operations that compute with the numbers that they are given."


@dataclass(eq=False, slots=True)
class FrozenNumber:
    text: str
    "The expression that was read: `self.lr`."
    owner: weakref.ref[Any]
    attribute: str
    value: int | float
    is_size: bool
    place: tuple[str, int]
    "File and line of the statement."
    is_tied: bool | None = None
    "Whether the program had the value at the first replay; None before."

    @property
    def now(self) -> Any:
        return attributes_of(self.owner()).get(self.attribute)

    def differs(self) -> bool:
        now = self.now
        if type(now) is not type(self.value) or now == self.value or now != now:
            return False
        return bool(now > self.value) or not self.is_size


class FrozenNumbers:
    def __init__(self) -> None:
        self._open: dict[tuple[int, str, bool], FrozenNumber] = {}
        "The numbers of the capture under way."
        self._graphs: weakref.WeakKeyDictionary[Any, list[FrozenNumber]] = weakref.WeakKeyDictionary()
        self._places: set[tuple[str, int]] = set()

    def begun(self) -> None:
        """Look at a capture that has begun. The one before may have failed."""
        self._open = {}

    def recording(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Note the numbers that a captured operation is given."""
        name = op_name(func)
        numbers = _numbers(name, args, kwargs)
        if numbers and (frame := _user_frame()) is not None:
            for number in numbers:
                found = _read(frame, number, is_size=name == _SLICE)
                if found is not None:
                    self._open[id(found.owner()), found.attribute, found.is_size] = found

    def captured(self, graph: Any) -> None:
        """Give a graph the numbers of its capture."""
        self._graphs[graph] = list(self._open.values())
        self._places.update(one.place for one in self._open.values())

    def ran(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Note an eager operation. A line that runs with another value needs no graph for it."""
        if not self._places or not _numbers(name, args, kwargs) or (frame := _user_frame()) is None:
            return
        place = _place(frame)
        if place in self._places:
            for one in self._all():
                if one.place == place and one.differs():
                    one.is_tied = False

    def changed(self, graph: Any) -> FrozenNumber | None:
        """Return a number that has changed since a graph froze it, before a replay."""
        for one in self._graphs.get(graph, ()):
            if one.is_tied is None:
                one.is_tied = not one.differs()
            elif one.is_tied and one.differs() and not self._has_graph(one):
                return one
        return None

    def _has_graph(self, one: FrozenNumber) -> bool:
        """Return whether a graph was captured for the value that the program has now."""
        same = [other for other in self._all() if other.owner is one.owner and other.attribute == one.attribute]
        return any(not other.differs() for other in same)

    def _all(self) -> Iterator[FrozenNumber]:
        return (one for found in list(self._graphs.values()) for one in found)


def _numbers(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[int | float]:
    if name == _SLICE:
        return [end for end in args[3:4] if type(end) is int]
    values = (*args, kwargs.get("alpha"), kwargs.get("value")) if name in _NUMBERS else ()
    return [value for value in values if type(value) in (int, float)]


def _user_frame() -> FrameType | None:
    return next(iter(user_frames_now(sys._getframe(2))), None)


def _place(frame: FrameType) -> tuple[str, int]:
    return frame.f_code.co_filename, frame.f_lineno


def _read(frame: FrameType, number: int | float, *, is_size: bool) -> FrozenNumber | None:
    """Return the attribute off which the running statement reads a number; None if another expression has the value."""
    names = names_of(frame)
    place = _place(frame)
    texts: dict[str, tuple[ast.expr, int | float]] = {}
    for expression, sign in _expressions(*place):
        value: Any = expression.value if isinstance(expression, ast.Constant) else value_of(expression, names)
        if type(value) is type(number) and sign * value == number:
            texts[ast.unparse(expression)] = expression, value
    if len(texts) != 1:
        return None
    ((text, (expression, frozen)),) = texts.items()
    if isinstance(expression, ast.Attribute):
        owner, attribute = value_of(expression.value, names), expression.attr
    elif isinstance(expression, ast.Name):
        owner, attribute = sys.modules.get(frame.f_globals.get("__name__", "")), expression.id
    else:
        return None
    reference = weak_to(owner)
    if reference is None or owner is None or attributes_of(owner).get(attribute) is not frozen:
        return None
    return FrozenNumber(text, reference, attribute, frozen, is_size, place)


@functools.lru_cache(maxsize=1024)
def _expressions(path: str, line: int) -> tuple[tuple[ast.expr, int], ...]:
    """Return the names, attributes and numbers of the statement of a line, with -1 for one that is negated."""
    statement = statement_at(path, line)
    if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)):
        return ()
    nodes = list(ast.walk(statement))
    negated = {id(one.operand) for one in nodes if isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub)}
    kinds = (ast.Name, ast.Attribute, ast.Constant)
    return tuple((one, -1 if id(one) in negated else 1) for one in nodes if isinstance(one, kinds))
