"""Finds numbers in variables, and lists of numbers, that a capture froze, and replays for which the same variables hold
others.

`limit = bucket(length)` may be a variable of the function that makes graphs on demand: `graphs[n] = capture(n, limit)`.
A variable counts if the captured statements use its value, or pass it to a function of the program that does. It must
be assigned once, in the loop (or else the function) that both captures and replays. A whole number, and each number of
a list, may be padded, so it has to be larger than at the capture.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

from graphsafe.run.child.expressions import names_of
from graphsafe.run.child.key_source import called, captured_statements, function_of, given_by, given_to, parameters
from graphsafe.run.child.loops import loop_around
from graphsafe.run.child.names import locals_of

_NUMBERS = (bool, int, float)
_LONGEST = 4096
"The largest number of elements of a list that is compared."
_DEEPEST = 4
"Number of nested calls of the program's functions that are followed."
_SUMMARIES = frozenset({"len", "sum", "max", "min", "any", "all", "bool", "isinstance", "print", "range"})
"Functions whose result does not tell each number of a list."


@dataclass(frozen=True, slots=True)
class Variable:
    code: CodeType
    name: str
    value: Any
    line: int
    "The line that led to the capture."

    def now(self, frame: FrameType) -> Any:
        """Return the variable's value in a running call of the same function, or None if the call cannot tell."""
        if not _is_comparable(self.code, self.name, self.line, frame.f_lineno):
            return None
        return _frozen(locals_of(frame).get(self.name))


def frozen_variables(frames: Sequence[FrameType], known: Collection[tuple[CodeType, str]]) -> list[Variable]:
    """Return the variables of `frames` (innermost first, from the capturing function outwards) whose values the
    captured statements use, without those that are `known`."""
    found = []
    used: set[str] = set()
    inner: FrameType | None = None
    for frame in frames:
        code, names = frame.f_code, names_of(frame)
        if inner is None:
            used = set(_used(captured_statements(code.co_filename, frame.f_lineno), names))
        else:
            given = given_by(frame, inner.f_code)
            used = {one for name in used if name in given for one in _names_in(given[name], names)}
        used |= {name for one in used for name in _enclosed(names.get(one))}
        inner, shown = frame, locals_of(frame) if used else {}
        for name in sorted(used & shown.keys()):
            value = _frozen(shown[name])
            if value is not None and (code, name) not in known:
                found.append(Variable(code, name, value, frame.f_lineno))
    return found


def _names_in(given: ast.expr, names: Mapping[str, Any]) -> Iterator[str]:
    """Yield the variables that an argument passes on: `limit`, `lambda: step(x, limit)`, `partial(step, limit)`."""
    if isinstance(given, ast.Name):
        yield given.id
    elif isinstance(given, ast.Lambda):
        yield from _used([ast.Expr(given.body)], names)
    elif isinstance(given, ast.Call) and ast.unparse(given.func).endswith("partial"):
        yield from (one.id for one in given.args if isinstance(one, ast.Name))


def _enclosed(value: Any) -> Iterator[str]:
    """Yield the variables of the surrounding function whose values an inner function uses."""
    function = function_of(value.__code__) if type(value) is FunctionType and value.__closure__ else None
    if function is not None:
        yield from set(_used(function.body, value.__globals__)).intersection(value.__code__.co_freevars)


def is_more(now: Any, captured: Any) -> bool:
    """Return whether a value differs from the captured one in a way that padding does not explain."""
    if type(now) is not type(captured):
        return False
    if type(captured) is tuple:
        return len(now) > len(captured) or any(map(is_more, now, captured))
    return bool(now > captured) if type(captured) is int else bool(now != captured and now == now)


def _frozen(value: Any) -> Any:
    """Return a number, or the numbers of a list as a tuple; None for any other value."""
    if type(value) in _NUMBERS:
        return value
    if type(value) in (list, tuple) and 0 < len(value) <= _LONGEST and all(type(one) in _NUMBERS for one in value):
        return tuple(value)
    return None


def _used(body: Sequence[ast.stmt], names: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield the variables whose numbers the statements use; an index, a text and a summary (`len(rows)`) do not
    count."""
    ignored: set[int] = set()
    for node in (one for statement in body for one in ast.walk(statement)):
        if isinstance(node, ast.JoinedStr):
            ignored.update(map(id, ast.walk(node)))
        elif isinstance(node, ast.Subscript):
            ignored.update(id(one) for one in (node.slice, *getattr(node.slice, "elts", ())))
        elif isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _SUMMARIES):
            ignored.update(id(one) for one in _unused(node, names, depth))
        elif isinstance(node, ast.Call):
            ignored.update(map(id, node.args))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in ignored:
            yield node.id


def _unused(call: ast.Call, names: Mapping[str, Any], depth: int) -> Iterator[ast.expr]:
    """Yield the arguments of a call whose numbers the called function of the program does not use."""
    known = called(call, names) if depth < _DEEPEST else None
    function = None if known is None else function_of(known[1].__code__)
    if known is None or function is None:
        return
    owner, run = known
    inside = {**run.__globals__, **({} if owner is None else {"self": owner})}
    used = set(_used(function.body, inside, depth + 1))
    for name, argument in given_to(call, run.__code__).items():
        if name not in used:
            yield argument


@functools.lru_cache(maxsize=1024)
def _is_comparable(code: CodeType, name: str, captured: int, replayed: int) -> bool:
    """Return whether a variable has one meaning at the lines that led to the capture and to the replay."""
    function = function_of(code)
    if function is None:
        return False
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name]
    stores = [node.lineno for node in names if not isinstance(node.ctx, ast.Load)]
    if name in parameters(code):
        return not stores
    loops = {loop_around(code.co_filename, line) for line in (*stores, captured, replayed)}
    return len(stores) == len(loops) == 1 and stores[0] < min(captured, replayed)
