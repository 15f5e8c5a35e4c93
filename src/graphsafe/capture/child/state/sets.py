"""Gives the elements of sets paths that are the same in each process, although sets are ordered by address."""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch

from graphsafe.capture.child.state.objects import attributes_of, module_name
from graphsafe.capture.child.state.values import SCALARS, key_text, text_of
from graphsafe.capture.child.state.walk import Item

_keys: dict[int, tuple[Any, str]] = {}
"""Address of an element -> a weak reference to it, and its key when a walk first saw it. A key that followed the
attributes of the element would change with them."""


def elements_of_set(path: str, value: Any) -> Iterator[Item]:
    """Yield the elements. They are ordered by their classes and by their attributes right after construction, so
    elements that these do not tell apart are in no certain order."""
    base: Any = set if issubclass(type(value), set) else frozenset
    for index, element in enumerate(sorted(base.__iter__(value), key=_key)):
        if not issubclass(type(element), SCALARS):
            yield f"{path}[#{index}]", element, None, None


def _key(element: Any) -> str:
    seen = _keys.get(id(element))
    if seen is not None and seen[0]() is element:
        return seen[1]
    key = _described(element)
    with suppress(TypeError):  # objects of some classes cannot have weak references
        _keys[id(element)] = weakref.ref(element), key
    return key


def _described(element: Any) -> str:
    kind = type(element)
    name = f"{module_name(kind)}.{kind.__name__}"
    if issubclass(kind, torch.Tensor):
        return f"{name} {_part(element)}"
    if kind is types.MethodType:
        return f"{name} {_described(element.__func__)} {_key(element.__self__)}"
    if kind in (type, types.FunctionType):
        return f"{name} {element.__module__}.{element.__qualname__}"
    parts = sorted(
        (held_as, _part(held)) for held_as, held in (attributes_of(element) or {}).items() if type(held_as) is str
    )
    return f"{name} {key_text(element)} {parts}"


def _part(held: Any) -> str:
    if issubclass(type(held), torch.Tensor):
        return f"{held.dtype} {list(held.shape)}"
    return text_of(held) if issubclass(type(held), SCALARS) else type(held).__name__
