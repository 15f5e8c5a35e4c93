"""Finds replays at which the program's values differ from the values that the capture froze.

Such a program chooses its graphs by a key that is too coarse. Three kinds of values are compared. The first are
arguments of the capturing function, if captured statements read them. The second are arguments with the same names in
the callers of this function. The third are values of objects, globals and closures that captured code used. If the
capturing function is called with another value, a replay inside the call uses the old value. A replay inside another
method of the same object also uses the old value, if this method also has the argument and ignores it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from graphsafe.capture.shared.frames import call_site
from graphsafe.report.model import CallSite
from graphsafe.run.child.frozen.arguments import ignores, passed_on_to
from graphsafe.run.child.frozen.numbers import Frozen, Walk
from graphsafe.run.child.frozen.variables import is_more
from graphsafe.run.child.names import Name, locals_of, weak_to
from graphsafe.run.child.source import caller_that_decides, collecting_parameter, is_choice, is_read, parameters
from graphsafe.run.facts import Changed

_SCALARS = (bool, int, float, str)


class _Tensor:
    """Stands for any tensor that is passed as an argument."""

    def __repr__(self) -> str:
        return "a tensor"


_A_TENSOR = _Tensor()


class Key:
    """The values that one capture froze."""

    def __init__(self, frames: Sequence[FrameType] = ()) -> None:
        """Read the values. `frames` are the frames of the user's code, from the capturing function outwards."""
        self._values: dict[CodeType, dict[str, Any]] = {}
        walk = Walk(frames)
        self.frozen, self.seeded, self.drawn, self._stores = walk.found, walk.seeded, walk.drawn, walk.stores
        self.sizes: Sequence[int] = ()
        "The sizes in bytes of the memory outside the pool that the graph uses."
        self._fitted: set[tuple[CodeType, str, int]] = set()
        """Triples of a function, a variable and the id of a frozen value. At an earlier replay, the variable held an
        object that had the captured value."""
        self._codes = {frame.f_code for frame in frames}
        self._owner = weak_to(locals_of(frames[0]).get("self")) if frames else None
        read = {one.id for node in walk.body for one in ast.walk(node) if is_read(one)}
        own = _arguments(frames[0]) if frames else {}
        named = parameters(frames[0].f_code) if frames else ()
        read = {*read.intersection(named), *(passed_on_to(frames, walk.body) - set(named) if own else ())}
        used = {name: value for name, value in own.items() if name in read and value is not _A_TENSOR}
        for frame in frames if used else ():
            given = _arguments(frame).items()
            passed_on = {name: value for name, value in given if name in used and _same(used[name], value)}
            if passed_on:
                self._values.setdefault(frame.f_code, passed_on)
        self._variables = [one for one in walk.variables.values() if one.name not in self._values.get(one.code, ())]
        self.decided = caller_that_decides(frames)
        self._lines = {frame.f_code: frame.f_lineno for frame in reversed(frames)}
        "Function that led to the capture -> its line at that moment."

    @property
    def has_values(self) -> bool:
        return bool(self._values or self.frozen or self._variables)

    def rebinding(self, names: Sequence[Name]) -> CallSite | None:
        """Return the captured line that assigns an attribute with one of these names, or None."""
        attributes = (key for name in names for how, key in name.way[-1:] if how != "item")
        return next((self._stores[one] for one in attributes if one in self._stores), None)

    def equals(self, other: Key) -> bool:
        return self._all() == other._all()

    def _all(self) -> tuple[object, ...]:
        frozen = {(one.text, one.place, one.value) for one in self.frozen}
        return frozen, {(one.code, one.name, one.value) for one in self._variables}, self._values

    def texts(self) -> dict[str, str]:
        """Return the frozen arguments with their values. If several arguments have the same name, the value in the
        innermost function is returned."""
        found = {one.text: repr(one.value)[:80] for one in self.frozen if one.carrier is not None}
        for values in self._values.values():
            found = {**{name: repr(value)[:80] for name, value in values.items()}, **found}
        return found

    def differs(self, frames: Sequence[FrameType], others: Iterable[Key] = ()) -> Changed | None:
        """Return a value that differs between the capture and a replay in `frames`, or None.

        `others` are the keys of the other graphs that the same calls captured.
        """
        keys = list(others)
        found = self._differs(frames) or self._frozen_differs(frames, keys)
        variables = ((one, one.now(frames)) for one in self._variables)
        more = (Changed(one.name, _shown(one.value), _shown(now)) for one, now in variables if is_more(now, one.value))
        larger = next(more, None)
        # If another graph has exactly these values, the program chose this graph on purpose.
        is_chosen = found is not None or larger is None or any(other.fits(frames) for other in keys)
        return found if is_chosen else larger

    def chosen_at(self, frames: Sequence[FrameType]) -> CallSite | None:
        """Return the line that decided to capture, if possible in a function that led to both the capture and the
        replay."""
        lines = ((one.f_code, self._lines.get(one.f_code), one.f_lineno) for one in frames)
        chosen = (call_site(code, at) for code, at, now in lines if at is not None and is_choice(code, at, now))
        return next(chosen, self.decided)

    def fits(self, frames: Sequence[FrameType]) -> bool:
        """Return whether all values at a replay in `frames` are equal to the captured values."""
        variables = ((one.value, one.now(frames)) for one in self._variables)
        is_same = self._differs(frames) is None and all(now is None or _same(then, now) for then, now in variables)
        return is_same and not any(one.differs(one.present) for one in self.frozen)

    def _frozen_differs(self, frames: Sequence[FrameType], others: Sequence[Key]) -> Changed | None:
        """Return the first value of captured code that is different now.

        The value is read from the same object, or from objects of its class that the functions around the replay use.
        """
        for one in self.frozen:
            same = _like(one, others)
            now = one.present
            if one.is_tied is None:
                one.is_tied = not one.differs(now)
            # If all graphs were captured with the same value, no graph fits another value. Then a difference is a
            # mistake, even if the program never had the captured value.
            is_only = type(one.value) is float or one.attribute == "training"
            is_sure = one.is_tied or (is_only and all(each.value == one.value for each in same))
            found = [(now, same)] if is_sure else []
            if one.carrier is not None:
                # Leave out graphs that use memory of other sizes: none of them can be the right graph for an object
                # with another value.
                alike = same if one.kind == "size" else _like(one, (key for key in others if key.sizes == self.sizes))
                found += [(value, alike) for value in self._handled(one, frames)]
            for value, known in () if one.is_free else found:
                if one.differs(value) and all(each.differs(value) for each in known):
                    return Changed(one.text, repr(one.value), repr(value))
        return None

    def _handled(self, one: Frozen, frames: Sequence[FrameType]) -> Iterator[Any]:
        """Yield the values of other objects of the same class, if the program cannot have chosen the graph by these
        values.

        Such an object is in a parameter of a function that led to the capture. It may also be in a variable of a
        function that ignores the value, if that variable had the captured value at an earlier replay.
        """
        for frame in frames:
            code = frame.f_code
            objects = [(name, value) for name, value in locals_of(frame).items() if type(value) is one.carrier]
            for name, value in objects:
                now = one.of(value)
                is_given = code in self._codes and name in parameters(code)
                if not one.differs(now):
                    self._fitted.add((code, name, id(one)))
                elif is_given or ((code, name, id(one)) in self._fitted and ignores(frame, name, one.attribute)):
                    yield now
            if objects:
                return

    def _differs(self, frames: Sequence[FrameType]) -> Changed | None:
        for frame in frames if self._values else ():
            captured = self._values.get(frame.f_code)
            if captured is not None:
                return _changed(captured, _arguments(frame))
        return self._method_differs(frames)

    def _method_differs(self, frames: Sequence[FrameType]) -> Changed | None:
        """Find the nearest running method of the capturing object. Return one of its arguments whose value differs from
        the captured one, or None.

        An integer may be a size that is padded to the captured one, so it counts as different only if it is larger.
        """
        values = (pair for one in self._values.values() for pair in one.items())
        captured = {name: value for name, value in values if value is not None}
        owner = None if self._owner is None else self._owner()
        for frame in frames if captured else ():
            given = _arguments(frame, with_named=False)
            known = {name: value for name, value in captured.items() if type(given.get(name)) in _SCALARS}
            if known and owner is not None and locals_of(frame).get("self") is owner:
                larger = {one: value for one, value in known.items() if type(value) is not int or given[one] > value}
                return _changed({name: value for name, value in larger.items() if ignores(frame, name)}, given)
        return None


def _changed(captured: Mapping[str, Any], given: Mapping[str, Any]) -> Changed | None:
    for name, value in captured.items():
        now = given.get(name)
        if now is _A_TENSOR if value is None else type(now) in _SCALARS and not _same(now, value):
            return Changed(name, repr(value), repr(given[name]))
    return None


def _like(one: Frozen, keys: Iterable[Key]) -> list[Frozen]:
    return [other for key in keys for other in key.frozen if (other.text, other.place) == (one.text, one.place)]


def _arguments(frame: FrameType, *, with_named: bool = True) -> dict[str, Any]:
    """Return the arguments of a function that are numbers, strings or None, with their present values.

    Arguments that are tensors are returned too, each with the value `_A_TENSOR`. With `with_named`, the arguments that
    `**` collects are returned as well.
    """
    names, collecting = parameters(frame.f_code), collecting_parameter(frame.f_code) if with_named else None
    shown = locals_of(frame) if names or collecting else {}
    collected = shown.get(collecting or "")
    given = dict(collected) if type(collected) is dict else {}
    given |= {name: shown[name] for name in names if name in shown}
    tensors = {name: _A_TENSOR for name, value in given.items() if issubclass(type(value), torch.Tensor)}
    return {name: value for name, value in given.items() if value is None or type(value) in _SCALARS} | tensors


def _shown(value: Any) -> str:
    return repr(list(value) if type(value) is tuple else value)[:80]


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other or one != one)
