"""Widening of arguments: details that seldom matter are dropped, so that many calls share a few summaries.

The dropped details depend only on the argument itself, and never on the number of other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import is_
from typing import Any

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.values import (
    UNSET,
    Dict,
    Function,
    Instance,
    Number,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    depends_on_step,
    holds_device,
    options,
)

MAX_INT = 16
"""The largest integer whose value is kept. A larger number counts as a size, and it is assumed that no branch depends
on a size."""
MAX_TEXT = 32
"The largest number of characters of a string whose value is kept."
MAX_ITEMS = 8
"A list keeps its items separate only if it has at most this many items."
MAX_HELD = 32
"A list keeps its items separate only if it contains at most this many values, including those in nested containers."
MAX_NESTING = 4
"""The largest number of levels of nested containers and partial calls.

Without a limit, functions that each call the next one with `(x, 1)` and `(1, x)` would be read for twice as many
arguments at every level.
"""
MAX_CLOSURES = 2
"""The largest depth of closures inside closures.

Without a limit, functions that each call the next one with `lambda: x` and with `x` would be read twice as often at
every level.
"""
MAX_PARTIAL = 4


def widened(arguments: Arguments) -> Arguments:
    """Widen arguments, and sort keywords by name. Arguments that need no change are returned as they are."""
    positional = tuple(map(_widened, arguments.positional))
    keywords = arguments.keywords
    if not keywords and all(map(is_, positional, arguments.positional)):
        return arguments
    return Arguments(positional, {name: _widened(keywords[name]) for name in sorted(keywords)}, arguments.further)


def _widened(value: Value) -> Value:
    shorter = _WIDENERS.get(type(value))
    return value if shorter is None else shorter(value)


def _tensor(value: Tensor) -> Tensor:
    return value if value.name is None else _without_name(value)


@lru_cache(maxsize=8192)
def _without_name(value: Tensor) -> Tensor:
    # The name is dropped, because the parameter gives the tensor a new name.
    return replace(value, name=None)


def _number(value: Number) -> Number:
    const = value.const
    if const is UNSET or const is True or const is False:
        return value
    if type(const) is int and -MAX_INT <= const <= MAX_INT:
        return value
    if type(const) in (str, bytes) and len(const) <= MAX_TEXT:
        return value
    return replace(value, const=UNSET)


def _sequence(value: Sequence) -> Value:
    if _is_deep(value):
        return Unknown(depends_on_step(value), holds_device(value))
    elem = _widened(value.elem)
    if value.items is None:
        return value if elem is value.elem else Sequence(value.kind, None, elem, value.held_by)
    if len(value.items) > MAX_ITEMS or value.weight > MAX_HELD:
        return Sequence(value.kind, None, elem, value.held_by)
    items = tuple(map(_widened, value.items))
    if elem is value.elem and all(map(is_, items, value.items)):
        return value
    return Sequence(value.kind, items, elem, value.held_by, value.names)


def _dict(value: Dict) -> Value:
    if _is_deep(value):
        return Unknown(depends_on_step(value), holds_device(value))
    if len(value.items) > MAX_ITEMS or value.weight > MAX_HELD:
        return Dict((), _widened(value.elem), value.held_by)
    items = tuple((key, _widened(item)) for key, item in value.items)
    elem = _widened(value.elem)
    if elem is value.elem and all(new is old for (_, new), (_, old) in zip(items, value.items, strict=True)):
        return value
    return Dict(items, elem, value.held_by)


def _is_deep(value: Sequence | Dict) -> bool:
    # A container's weight counts the container itself and the values that it joins.
    return value.weight > 2 * MAX_NESTING and _holds_deep(value, MAX_NESTING)


def _holds_deep(value: Value, room: int) -> bool:
    """Return whether containers and partial calls are nested more than `room` levels deep in a value."""
    if isinstance(value, Union):
        return any(_holds_deep(each, room) for each in value.options)
    if isinstance(value, (Sequence, Dict)) or (isinstance(value, Function) and _is_partial(value)):
        return room == 0 or any(_holds_deep(each, room - 1) for each in parts_of(value))
    return False


def _is_partial(value: Function) -> bool:
    return bool(value.partial or value.partial_keywords)


def _function(value: Function) -> Value:
    if len(value.partial) + len(value.partial_keywords) > MAX_PARTIAL or _nesting(value) > MAX_CLOSURES:
        return Unknown(device=True)
    if _is_partial(value) and _holds_deep(value, MAX_NESTING):
        return Unknown(device=True)
    return value


def _nesting(value: Value) -> int:
    """Return how deeply closures are nested in a value, up to the limit. Closures in containers and in arguments count
    too.

    Each environment counts only where it is first reached, because the number of paths through environments may be
    huge.
    """
    seen: set[int] = set()
    held: Iterable[Value] = (value,)
    for depth in range(MAX_CLOSURES + 1):
        found = [function for function in _closures(held) if id(function.closure) not in seen]
        if not found:
            return depth
        seen.update(id(function.closure) for function in found)
        held = [each for one in found for each in (*(one.closure or {}).values(), *parts_of(one))]
    return MAX_CLOSURES + 1


def _closures(values: Iterable[Value]) -> Iterator[Function]:
    """Return the closures in values, but not the closures inside other closures."""
    seen: set[int] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Function) and value.node is not None and value.closure is not None:
            yield value
        else:
            waiting += parts_of(value)


def parts_of(value: Value) -> Iterable[Value]:
    """Return the values inside a value. The environment of a closure is not included."""
    if isinstance(value, Sequence):
        return (value.elem, *(value.items or ()))
    if isinstance(value, Dict):
        return (value.elem, *(each for _, each in value.items))
    if isinstance(value, Union):
        return value.options
    if isinstance(value, Function):
        keywords = (each for _, each in value.partial_keywords)
        return (*value.partial, *keywords) if value.bound is None else (value.bound, *value.partial, *keywords)
    if isinstance(value, Instance) and value.given is not None:
        return (*value.given.positional, *(each for _, each in value.given.keywords))
    return ()


def _union(value: Union) -> Value:
    wide = tuple(map(_widened, value.options))
    return value if all(map(is_, wide, value.options)) else join_all(wide)


_WIDENERS: Mapping[type, Callable[[Any], Value]] = {
    Tensor: _tensor,
    Number: _number,
    Sequence: _sequence,
    Dict: _dict,
    Function: _function,
    Union: _union,
}


def in_any_call(value: Value) -> Value:
    """Return a value without the identities of objects, their origins in a step and the values of numbers, because
    these are facts about one call only."""
    if type(value) is Number:
        return Number(type=value.type)
    if type(value) is Tensor:
        return Tensor(value.where, value.dtype, value.ndim, value.pinned, certain=value.certain)
    if type(value) is Instance:
        return Instance(value.ref, declared=value.declared)
    if type(value) is Sequence and value.items:
        parts = tuple(join_all(map(in_any_call, options(item))) for item in value.items)
        return Sequence("tuple", parts, join_all(parts))
    return value
