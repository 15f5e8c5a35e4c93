"""Finds host values that a capture froze, and replays for which the program has other values: the graph's key is too
coarse.

The values are arguments of the capturing function that the captured statements read, arguments of the same names in its
callers, and numbers that objects hold. A whole number of an object counts only if a captured slice ends there. If one
of these functions is called with another value and a replay runs inside, the replay uses the old value. The same holds
for another method of the same object that takes the argument and ignores it.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

from graphsafe.capture.shared.frames import call_site
from graphsafe.report.model import CallSite
from graphsafe.run.child.key_source import (
    attributes_read,
    called,
    captured_statements,
    chosen_at,
    function_of,
    given_by,
    ignores,
    parameters,
)
from graphsafe.run.child.key_variables import Variable, frozen_variables, is_more
from graphsafe.run.child.names import attributes_of, locals_of, weak_to

_SCALARS = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Changed:
    """A number or text that had another value when the graph was captured."""

    name: str
    captured: str
    now: str
    at: CallSite | None = None
    "The line that froze it or that decides whether it has a graph, if it is known; else that of the capture."


@dataclass(frozen=True, slots=True)
class Stale:
    changed: Changed
    frames: tuple[CallSite, ...]
    "The frames of the replay."


@dataclass(frozen=True, slots=True)
class _Held:
    """A number or text in an attribute of an object that a capture read."""

    name: str
    "The argument that held the object."
    attribute: str
    value: Any
    owner: weakref.ref[Any]
    kind: type
    is_own: bool
    "Whether the object is the one whose methods capture and replay, or run in the capture."

    @property
    def now(self) -> Any:
        return attributes_of(self.owner()).get(self.attribute)


class Key:
    """The values that one capture froze, by function and argument."""

    def __init__(self, frames: Sequence[FrameType] = ()) -> None:
        """Read the values; `frames` are the user's frames, from the capturing function outwards."""
        self._values: dict[CodeType, dict[str, Any]] = {}
        self._held: list[_Held] = []
        self._variables: list[Variable] = []
        self._sizes: list[_Held] = []
        "Whole numbers that objects hold and at which captured slices end."
        self._is_tied: bool | None = None
        "Whether the objects had these numbers at the first replay; None before."
        self._codes = {frame.f_code for frame in frames}
        self._owner: weakref.ref[Any] | None = None
        used: Mapping[str, Any] | None = None
        for frame in frames:
            given = _arguments(frame)
            if used is None:
                body = captured_statements(frame.f_code.co_filename, frame.f_lineno)
                names = {node.id for node in _nodes(body, ast.Name) if isinstance(node.ctx, ast.Load)}
                used = {name: value for name, value in given.items() if name in names}
                shown = locals_of(frame)
                self._owner = weak_to(shown.get("self"))
                self._held += [*_read_in(body, shown), *_read_by_calls(body, {**frame.f_globals, **shown})]
                self._sizes += _sizes(body, {**frame.f_globals, **shown})
            passed_on = {name: value for name, value in given.items() if name in used and _same(used[name], value)}
            if passed_on:
                self._values.setdefault(frame.f_code, passed_on)
        self._held += _passed(frames, used or {})
        known = [(code, name) for code, values in self._values.items() for name in values]
        self._variables = frozen_variables(frames, known)
        self._lines = {frame.f_code: frame.f_lineno for frame in reversed(frames)}
        "The line of each function that led to the capture."

    @property
    def has_values(self) -> bool:
        return bool(self._values or self._held or self._variables or self._sizes)

    def texts(self) -> dict[str, str]:
        """Return the arguments with their values, inner functions first."""
        found = {f"{one.name}.{one.attribute}": repr(one.value)[:80] for one in self._held if not one.is_own}
        for values in self._values.values():
            found = {**{name: repr(value)[:80] for name, value in values.items()}, **found}
        return found

    def differs(self, frames: Sequence[FrameType], others: Iterable[Key] = ()) -> Changed | None:
        """Return a value that differs between the capture and a replay under `frames`, or None.

        `others` are the keys of the graphs that were captured in the same way.
        """
        found = self._differs(frames)
        larger = self._larger_size() or next(self._variables_now(frames), None)
        # If another graph has just these values, the program chose this one on purpose
        is_chosen = found is not None or larger is None or any(other.fits(frames, self) for other in others)
        return found if is_chosen else larger

    def chosen_at(self, frames: Sequence[FrameType]) -> CallSite | None:
        """Return the line at which a function that led to the capture, and to a replay under `frames`, decided to
        capture."""
        lines = ((one.f_code, self._lines.get(one.f_code), one.f_lineno) for one in frames)
        chosen = ((code, chosen_at(code, line, now)) for code, line, now in lines if line is not None)
        return next((call_site(code, line) for code, line in chosen if line is not None), None)

    def fits(self, frames: Sequence[FrameType], like: Key) -> bool:
        """Return whether all values, of the same objects as those of `like`, are the same at a replay under
        `frames`."""
        if [id(one.owner()) for one in self._sizes] != [id(one.owner()) for one in like._sizes]:
            return False
        now = [(one.value, value) for one in self._variables for value in _values(one, frames)]
        return self._differs(frames) is None and all(_same(*pair) for pair in now) and self._has_sizes()

    def _has_sizes(self) -> bool:
        return all(_same(one.now, one.value) for one in self._sizes)

    def _larger_size(self) -> Changed | None:
        if self._is_tied is None:  # a program whose numbers differ at once chooses graphs in another way
            self._is_tied = self._has_sizes()
        for one in self._sizes if self._is_tied else ():
            if is_more(one.now, one.value):
                return Changed(f"{one.name}.{one.attribute}", repr(one.value), repr(one.now))
        return None

    def _variables_now(self, frames: Sequence[FrameType]) -> Iterator[Changed]:
        for one in self._variables:
            for now in _values(one, frames):
                if is_more(now, one.value):
                    yield Changed(one.name, _shown(one.value), _shown(now))

    def _differs(self, frames: Sequence[FrameType]) -> Changed | None:
        for frame in frames if self._values else ():
            captured = self._values.get(frame.f_code)
            if captured is not None:
                changed = _changed(captured, _arguments(frame))
                return changed or self._object_differs(frames)
        return self._object_differs(frames) or self._method_differs(frames)

    def _object_differs(self, frames: Sequence[FrameType]) -> Changed | None:
        for one in self._held:
            owner = one.owner() if one.is_own else self._argument(one, frames)
            now = attributes_of(owner).get(one.attribute)
            if type(now) is type(one.value) and not _same(now, one.value):
                return Changed(f"{one.name}.{one.attribute}", repr(one.value), repr(now))
        return None

    def _argument(self, held: _Held, frames: Sequence[FrameType]) -> Any:
        """Return the object that the same argument holds now, if it cannot have chosen the graph.

        The argument belongs to a function that led to the capture, or to another method of the capturing object.
        """
        for frame in frames:
            value = locals_of(frame).get(held.name) if held.name in parameters(frame.f_code) else None
            if type(value) is held.kind:
                is_free = self._is_ours(frame) and ignores(frame, held.name, held.attribute)
                return value if frame.f_code in self._codes or is_free else None
        return None

    def _is_ours(self, frame: FrameType) -> bool:
        owner = None if self._owner is None else self._owner()
        return owner is not None and locals_of(frame).get("self") is owner

    def _method_differs(self, frames: Sequence[FrameType]) -> Changed | None:
        """Compare the arguments of the nearest method of the capturing object.

        A whole number may be a size that is padded to the captured one, so only a larger number differs.
        """
        captured = {name: value for values in self._values.values() for name, value in values.items()}
        for frame in frames if captured else ():
            given = _arguments(frame)
            known = {name: value for name, value in captured.items() if name in given}
            if known and self._is_ours(frame):
                larger = {one: value for one, value in known.items() if type(value) is not int or given[one] > value}
                return _changed({name: value for name, value in larger.items() if ignores(frame, name)}, given)
        return None


def _changed(captured: Mapping[str, Any], given: Mapping[str, Any]) -> Changed | None:
    for name, value in captured.items():
        if name in given and not _same(given[name], value):
            return Changed(name, repr(value), repr(given[name]))
    return None


def _read_in(body: Sequence[ast.stmt], shown: Mapping[str, Any]) -> Iterator[_Held]:
    """Yield the attributes of arguments that the captured statements read: `adapter.scaling`."""
    for node in _nodes(body, ast.Attribute):
        if isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from _held(node.value.id, node.attr, shown.get(node.value.id), is_own=node.value.id == "self")


def _read_by_calls(body: Sequence[ast.stmt], names: Mapping[str, Any]) -> Iterator[_Held]:
    """Yield the attributes of `self` that captured methods read."""
    for call in _nodes(body, ast.Call):
        owner, function = called(call, names) or (None, None)
        if owner is not None and function is not None:
            is_method = isinstance(call.func, ast.Attribute) and call.func.attr == function.__name__
            name = ast.unparse(call.func.value if is_method else call.func)
            for attribute in attributes_read(function):
                yield from _held(name, attribute, owner, is_own=True)


def _sizes(body: Sequence[ast.stmt], names: Mapping[str, Any]) -> Iterator[_Held]:
    """Yield the whole numbers of objects at which slices end, in the captured statements and the methods they call:
    `self.keys[:, : self.window]`."""
    for node in _nodes(body, ast.Attribute):
        if id(node) in _ends(body) and isinstance(node.value, ast.Name):
            yield from _size(node.value.id, node.attr, names.get(node.value.id))
    for call in _nodes(body, ast.Call):
        owner, run = called(call, names) or (None, None)
        function = None if owner is None or run is None else function_of(run.__code__)
        if function is not None and isinstance(call.func, ast.Attribute):
            own = function.args.args[0].arg if function.args.args else ""
            ends = _ends(function.body)
            for node in _nodes(function.body, ast.Attribute):
                if id(node) in ends and isinstance(node.value, ast.Name) and node.value.id == own:
                    yield from _size(ast.unparse(call.func.value), node.attr, owner)


def _ends(body: Sequence[ast.stmt]) -> set[int]:
    return {id(node.upper) for node in _nodes(body, ast.Slice)}


def _size(name: str, attribute: str, owner: Any) -> Iterator[_Held]:
    value, reference = attributes_of(owner).get(attribute), weak_to(owner)
    if reference is not None and type(value) is int:
        yield _Held(name, attribute, value, reference, type(owner), is_own=True)


def _passed(frames: Sequence[FrameType], used: Mapping[str, Any]) -> Iterator[_Held]:
    """Yield the attributes that callers read and pass on: `self.build(batch, adapter.scaling)`."""
    followed = set(used)
    for inner, outer in pairwise(frames):
        given = given_by(outer, inner.f_code)
        expressions = [given[name] for name in followed if name in given]
        followed = {one.id for one in expressions if isinstance(one, ast.Name)}
        shown = locals_of(outer) if expressions else {}
        for one in expressions:
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
                name = one.value.id
                yield from _held(name, one.attr, shown.get(name), is_own=name == "self")


def _held(name: str, attribute: str, owner: Any, *, is_own: bool) -> Iterator[_Held]:
    """Yield the value of an attribute if a change of it would be a mistake.

    Whole numbers are left out, as they may be counters or padded sizes; so are an object's own flags, which may
    describe the capture itself.
    """
    value, reference = attributes_of(owner).get(attribute), weak_to(owner)
    if reference is not None and type(value) in ((float,) if is_own else (float, bool, str)):
        yield _Held(name, attribute, value, reference, type(owner), is_own)


def _nodes(body: Sequence[ast.stmt], kind: type[Any]) -> Iterator[Any]:
    return (node for statement in body for node in ast.walk(statement) if isinstance(node, kind))


def _arguments(frame: FrameType) -> dict[str, Any]:
    """Return the numbers and texts with which a function was called."""
    names = parameters(frame.f_code)
    shown = locals_of(frame) if names else {}
    return {name: shown[name] for name in names if type(shown.get(name)) in _SCALARS}


def _values(variable: Variable, frames: Sequence[FrameType]) -> Iterator[Any]:
    """Yield the value of a variable in the innermost call of its function."""
    frame = next((one for one in frames if one.f_code is variable.code), None)
    value = None if frame is None else variable.now(frame)
    if value is not None:
        yield value


def _shown(value: Any) -> str:
    return repr(list(value) if type(value) is tuple else value)[:80]


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other or one != one)
