"""Describes the values that flow into and out of a break: tensors, and host values that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.child.state.containers import CELL, Slot

TENSOR = "tensor"
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Flat:
    """A value as its tensors, in order, and all its other parts that can be compared."""

    tensors: tuple[torch.Tensor, ...]
    hosts: tuple[Any, ...]
    "Pairs `(path, text)` for plain values and for the structure. Other objects are compared only by their type."


def flat(value: Any) -> Flat:
    leaves = list(_leaves("", value, 0))
    tensors = tuple(leaf for _, leaf in leaves if issubclass(type(leaf), torch.Tensor))
    return Flat(tensors, tuple((path, _text(leaf)) for path, leaf in leaves))


def _text(leaf: Any) -> str:
    kind = type(leaf)
    if issubclass(kind, torch.Tensor):
        return TENSOR
    if isinstance(leaf, _Structure):
        return leaf
    if isinstance(leaf, _PLAIN):
        return f"{kind.__name__} {leaf!r}"
    if kind.__module__ == "torch" and kind.__name__ in ("Size", "dtype", "device", "layout"):
        return str(leaf)
    if kind.__module__ == "numpy":
        with suppress(Exception):  # the value cannot be compared: it is an object array or a module, for example
            return f"{leaf.dtype} {leaf.shape} {leaf.tobytes()!r}"
    return kind.__qualname__


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
    return {name: Slot(cell, CELL) for name, cell in names if name != "__class__" and name not in beyond}


def shallow(value: Any) -> Any:
    """Return the content of one of the user's containers, to notice a change. Return None for any other value."""
    kind = type(value)
    if kind in (list, set):
        return kind, tuple(map(id, value))
    if issubclass(kind, dict):
        return kind, tuple((id(key), id(item)) for key, item in list(dict.items(value)))
    return None
