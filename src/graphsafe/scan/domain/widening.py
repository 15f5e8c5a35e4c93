"""Widening of arguments: details that seldom matter are dropped, so that few summaries serve many calls.

What is dropped depends on the argument alone, never on how many others there have been.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    Number,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
)

MAX_INT = 16
"Larger numbers are sizes; no branch depends on their value."
MAX_TEXT = 32
"Characters of a string that is worth following."
MAX_ITEMS = 8
"Items of a list that are told apart."
MAX_HELD = 32
"Values in such a list in all, nested ones included."
MAX_CLOSURES = 3
"Closures that hold one another."
MAX_PARTIAL = 4


def widened(arguments: Arguments) -> Arguments:
    """Keywords in the order of their names. Arguments that are so already are given back as they are."""
    positional = tuple(map(_widened, arguments.positional))
    keywords = arguments.keywords
    if not keywords and all(map(is_, positional, arguments.positional)):
        return arguments
    return Arguments(positional, {name: _widened(keywords[name]) for name in sorted(keywords)}, arguments.open)


def _widened(value: Value) -> Value:
    shorter = _WIDENERS.get(type(value))
    return value if shorter is None else shorter(value)


def _tensor(value: Tensor) -> Tensor:
    return value if value.name is None else _without_name(value)


@lru_cache(maxsize=8192)
def _without_name(value: Tensor) -> Tensor:
    # The parameter gives it another name.
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


def _sequence(value: Sequence) -> Sequence:
    elem = _widened(value.elem)
    if value.items is None:
        return value if elem is value.elem else Sequence(value.kind, None, elem, value.held_by)
    if len(value.items) > MAX_ITEMS or value.weight > MAX_HELD:
        return Sequence(value.kind, None, elem, value.held_by)
    items = tuple(map(_widened, value.items))
    if elem is value.elem and all(map(is_, items, value.items)):
        return value
    return Sequence(value.kind, items, elem, value.held_by, value.names)


def _dict(value: Dict) -> Dict:
    if len(value.items) > MAX_ITEMS or value.weight > MAX_HELD:
        return Dict((), _widened(value.elem), value.held_by)
    items = tuple((key, _widened(item)) for key, item in value.items)
    elem = _widened(value.elem)
    if elem is value.elem and all(new is old for (_, new), (_, old) in zip(items, value.items, strict=True)):
        return value
    return Dict(items, elem, value.held_by)


def _function(value: Function) -> Value:
    if len(value.partial) + len(value.partial_keywords) > MAX_PARTIAL or _nesting(value) > MAX_CLOSURES:
        return Unknown(device=True)
    return value


def _nesting(value: Function, seen: frozenset[int] = frozenset()) -> int:
    """How deep closures are nested in a closure's environment, counted up to the limit."""
    if value.node is None or value.closure is None or id(value.closure) in seen or len(seen) > MAX_CLOSURES:
        return 0
    seen = seen | {id(value.closure)}
    return 1 + max((_nesting(held, seen) for held in value.closure.values() if type(held) is Function), default=0)


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
