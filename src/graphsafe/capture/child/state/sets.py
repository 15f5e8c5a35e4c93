"""Gives the elements of sets the same order in each process, although Python orders them by address."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from graphsafe.capture.child.state.objects import module_name
from graphsafe.capture.child.state.values import SCALARS
from graphsafe.capture.child.state.walk import Handler, ObjectWalk

_MOST_OBJECTS = 200
_keys: dict[int, tuple[Any, str]] = {}
"""Address of an element -> a weak reference to the element, and the key that it had when a walk first saw it. Later the
element's values may differ between processes: a count in Python code, for example, grows in eager steps but not in
replays."""


def in_order(elements: Any, handler_of: Callable[[type], Handler | None]) -> tuple[list[Any], bool]:
    """Return the elements that are not numbers or strings, ordered by their contents right after construction. The
    second result says whether all elements have different contents."""
    objects = [element for element in elements if not issubclass(type(element), SCALARS)]
    if len(objects) < 2:
        return objects, True
    keyed = [(_key(element, handler_of), element) for element in objects]
    keyed.sort(key=lambda one: one[0])
    return [element for _, element in keyed], len({key for key, _ in keyed}) == len(keyed)


def _key(element: Any, handler_of: Callable[[type], Handler | None]) -> str:
    seen = _keys.get(id(element))
    if seen is not None and seen[0]() is element:
        return seen[1]
    kind = type(element)
    name = f"{module_name(kind)}.{kind.__name__}"
    try:
        reference = weakref.ref(element, functools.partial(_forget, id(element)))
    except TypeError:  # objects of some classes, such as tuples, cannot have weak references
        return name
    # The element may refer to the set, so sets are left out.
    reach = ObjectWalk(_MOST_OBJECTS).run(
        {"": element}, lambda kind: None if issubclass(kind, (set, frozenset)) else handler_of(kind)
    )
    layouts = {path: f"{tensor.dtype} {list(tensor.shape)}" for path, tensor in reach.tensors.items()}
    key = f"{name} {sorted(reach.hosts.items())} {sorted(layouts.items())} {sorted(reach.lengths.items())}"
    _keys[id(element)] = reference, key
    return key


def _forget(address: int, reference: Any) -> None:
    seen = _keys.get(address)
    if seen is not None and seen[0] is reference:
        del _keys[address]
