"""Lists the elements of a container and the attributes of an object, each with its path, its container and its key."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from graphsafe.capture.child.state.containers import MISSING, Slot
from graphsafe.capture.child.state.objects import attributes_of, layout_of
from graphsafe.capture.child.state.values import SCALARS, dotted, key_text
from graphsafe.capture.child.state.walk import Item, below


def elements_of(path: str, value: Any) -> Iterator[Item]:
    """Yield the elements of a dict, a list, a tuple or a deque, without calling methods that its class overrides."""
    if issubclass(type(value), dict):
        taken: set[str] = set()
        for index, (key, item) in enumerate(list(dict.items(value))):
            name = key_text(key)
            if name is None or name in taken:
                name = f"#{index}"
            taken.add(name)
            yield f"{path}[{name}]", item, value, key
        return
    base: Any = next(base for base in (list, tuple, deque) if issubclass(type(value), base))
    for index, item in enumerate(list(base.__iter__(value))):
        yield f"{path}[{index}]", item, value, index


def objects_among_keys(path: str, value: dict[Any, Any]) -> Iterator[Item]:
    """Yield those keys of a dict that may hold state. The elements of a set may hold state in the same way."""
    for index, key in enumerate(list(dict.keys(value))):
        if not issubclass(type(key), (*SCALARS, tuple, type, FunctionType, enum.Enum)):
            yield f"{path}.keys()[{index}]", key, None, None


def stored_in(path: str, value: Any) -> Iterator[Item]:
    dot = below(path)
    attributes = attributes_of(value)
    if attributes is not None:
        yield from variables_in(dot, attributes)
    for name, descriptor in layout_of(type(value)).slots:
        slot = Slot(value, descriptor)
        if (item := slot.read()) is not MISSING:
            yield f"{dot}{name}", item, slot, name


def variables_in(dot: str, variables: dict[str, Any]) -> Iterator[Item]:
    for name, item in list(variables.items()):
        yield (dot + name if type(name) is str and name.isascii() else dotted(dot, name)), item, variables, name
