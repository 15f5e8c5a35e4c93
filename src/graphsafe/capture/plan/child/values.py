"""Describes the values that flow into and out of a break: tensors, and host values that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.child.state.containers import Slot, cell_slot

TENSOR = "tensor"
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Flat:
    """A value as its tensors, in order, and all its other parts that can be compared."""

    tensors: tuple[torch.Tensor, ...]
    hosts: tuple[Any, ...]
    "Pairs `(path, text)` for plain values and for the structure. Other objects are compared only by their type."


def flat(value: Any) -> Flat:
    tensors: list[torch.Tensor] = []
    hosts: list[Any] = []
    for path, leaf in _leaves("", value, 0):
        if issubclass(type(leaf), torch.Tensor):
            tensors.append(leaf)
            hosts.append((path, TENSOR))
        elif isinstance(leaf, _Structure):
            hosts.append((path, leaf))
        elif isinstance(leaf, _PLAIN):
            hosts.append((path, f"{type(leaf).__name__} {leaf!r}"))
        elif type(leaf).__module__ == "torch" and type(leaf).__name__ in ("Size", "dtype", "device", "layout"):
            hosts.append((path, str(leaf)))
        elif type(leaf).__module__ == "numpy":
            hosts.append((path, _numpy_text(leaf)))
        else:
            hosts.append((path, type(leaf).__qualname__))
    return Flat(tuple(tensors), tuple(hosts))


def _numpy_text(value: Any) -> str:
    try:
        return f"{value.dtype} {value.shape} {value.tobytes()!r}"
    except Exception:  # the value cannot be compared: it is an object array or a module, for example
        return type(value).__qualname__


class _Structure(str):
    """The class and the length of a container."""


_DEPTH = 6


def _leaves(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    if depth < _DEPTH and issubclass(kind, (list, tuple)):
        yield path, _Structure(f"{kind.__name__} of {len(value)}")
        for index, item in enumerate(tuple.__iter__(value) if issubclass(kind, tuple) else list.__iter__(value)):
            yield from _leaves(f"{path}[{index}]", item, depth + 1)
    elif depth < _DEPTH and issubclass(kind, dict):
        yield path, _Structure(f"{kind.__name__} of {len(value)}")
        for key, item in list(dict.items(value)):
            yield from _leaves(f"{path}[{key!r}]" if isinstance(key, _PLAIN) else f"{path}[...]", item, depth + 1)
    else:
        yield path, value


def cells_of(function: Callable[[], Any], beyond: Set[str] = frozenset()) -> dict[str, Slot]:
    """Return the variables that a nested function shares with its enclosing function, by name. `__class__` and the
    variables in `beyond` are left out."""
    code: Any = function.__code__
    closure: Any = function.__closure__ or ()
    names = zip(code.co_freevars, closure, strict=True)
    return {name: cell_slot(cell) for name, cell in names if name != "__class__" and name not in beyond}


def shallow(value: Any) -> Any:
    """Return the content of one of the user's containers, to notice a change. Return None for any other value."""
    kind = type(value)
    if kind in (list, set):
        return kind, tuple(map(id, value))
    if issubclass(kind, dict):
        return kind, tuple((id(key), id(item)) for key, item in list(dict.items(value)))
    return None
