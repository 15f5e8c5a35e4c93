"""Finds the inputs of a step: tensors, arrays and numbers in its arguments, by the paths of `reachable_state`."""

from __future__ import annotations

import ctypes
import sys
from argparse import Namespace
from array import array
from collections import UserDict, UserList, deque
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from types import SimpleNamespace
from typing import Any

import torch

from graphsafe.capture.child.state.objects import attributes_of, bases_of, is_users_class, module_name, namespace_of
from graphsafe.capture.child.state.values import SCALARS
from graphsafe.capture.child.state.walk import MOST_OBJECTS, Item, ObjectWalk, elements_of, stored_in
from graphsafe.capture.child.targets import Subject

_OPAQUE = ("queue", "_queue", "ctypes", "_ctypes", "mmap", "multiprocessing", "_io")
"Modules whose objects hold data on the host."
_SHARED = ("ctypes", "_ctypes", "mmap", "multiprocessing.sharedctypes", "multiprocessing.shared_memory")
"""Modules whose objects are memory. If a plain object holds such memory, the memory counts as an input of the step. A
queue or a file in a plain object does not count, because it may only be a log."""
_BUFFERS = (array, bytearray, memoryview, ctypes.Array)
"""Types whose objects are host memory with numbers. Python reads these numbers, and a caller overwrites them. The
tensors made from such objects share their memory. As long as such a tensor exists, the object cannot be enlarged."""


def inputs_of(subject: Subject) -> dict[str, torch.Tensor]:
    """Return the tensors of the step's arguments. NumPy arrays and buffers are included, as tensors that share their
    memory.

    Inputs are looked for in tuples, lists, dicts, dataclasses and simple namespaces. A tensor inside any other object
    (a cache, a module) is state, and so is a parameter. If there are no such inputs, the tensors in plain objects of
    the user's classes are returned. Arrays that are read-only are left out.
    """
    return tensors_in_arguments(subject, in_objects=False) or tensors_in_arguments(subject, in_objects=True)


def tensors_in_arguments(subject: Subject, in_objects: bool) -> dict[str, torch.Tensor]:
    """Return the tensors of the step's arguments. If `in_objects` is set, tensors in plain objects of the user's
    classes are included."""
    inside = ObjectWalk()
    numpy: Any = sys.modules.get("numpy")  # a target with arrays has imported numpy
    with torch._C.DisableTorchFunction():
        for path, value in _arguments(subject, in_objects):
            kind = type(value)
            if issubclass(kind, torch.Tensor):
                if not (issubclass(kind, torch.nn.Parameter) or (attributes_of(value) or {}).get("_is_param")):
                    inside.take_tensor(path, value)
            elif (numpy is not None and kind is numpy.ndarray) or issubclass(kind, _BUFFERS):
                shared = shared_tensor(value)
                if shared is not None:
                    inside.reach.tensors[path] = shared
    return dict(inside.reach.tensors)


def opaque_inputs_of(subject: Subject) -> list[str]:
    """Return the paths of arguments that hold data on the host and cannot be varied: queues, ctypes objects, files,
    shared memory, and arrays of anything but numbers."""
    varied = inputs_of(subject)
    opaque = [path for path, value in _arguments(subject) if _is_opaque(type(value))]
    shared = [path for path, value in _arguments(subject, in_objects=True) if _is_shared(type(value))]
    return [path for path in dict.fromkeys((*opaque, *shared)) if path not in varied]


def _is_shared(kind: type) -> bool:
    return any(module_name(base) in _SHARED for base in bases_of(kind))


def _is_opaque(kind: type) -> bool:
    named = [(module_name(base), base.__name__) for base in bases_of(kind)]
    return ("numpy", "ndarray") in named or any(module.partition(".")[0] in _OPAQUE for module, _ in named)


def numbers_of(subject: Subject) -> list[str]:
    """Return the paths of Python and NumPy numbers among the step's arguments. A graph holds these numbers as
    constants. For numbers in a set, the path is that of the set."""
    numpy: Any = sys.modules.get("numpy")
    numbers: tuple[type, ...] = (bool, int, float, complex, *([] if numpy is None else [numpy.generic]))
    found = []
    for path, value in _arguments(subject, in_objects=True):
        kind = type(value)
        held = value if issubclass(kind, (set, frozenset)) else (value,)
        if any(issubclass(type(one), numbers) for one in held):
            found.append(path)
    return found


def _arguments(subject: Subject, in_objects: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield each value inside the arguments once. With `in_objects`, also yield values inside plain objects."""
    seen: set[int] = set()
    todo: deque[Item] = deque([("args", subject.args, None, None), ("kwargs", subject.kwargs, None, None)])
    while todo and len(seen) < MOST_OBJECTS:
        path, value, _, _ = todo.popleft()
        kind = type(value)
        if issubclass(kind, SCALARS):
            yield path, value
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        if issubclass(kind, (dict, list, tuple, deque)):
            todo.extend(elements_of(path, value))
        elif _holds_fields(kind) or (in_objects and _is_plain_object(kind)):
            todo.extend(stored_in(path, value))
        else:
            yield path, value


def _holds_fields(kind: type) -> bool:
    return kind in (UserDict, UserList, SimpleNamespace, Namespace) or issubclass(kind, Mapping) or is_dataclass(kind)


def _is_plain_object(kind: type) -> bool:
    """Return whether a class is the user's own and its objects are plain: they are not modules and cannot be called."""
    is_called = any("__call__" in namespace_of(base) for base in bases_of(kind))
    return is_users_class(kind) and not is_called and not issubclass(kind, torch.nn.Module)


def shared_tensor(array: Any) -> torch.Tensor | None:
    """Return a tensor that shares the memory of an array or a buffer. Return None if the memory is read-only, or if
    torch has no such dtype or layout."""
    try:
        import numpy

        there = numpy.asarray(array if type(array) is numpy.ndarray else memoryview(array))
        return torch.from_numpy(there) if there.flags.writeable and there.dtype.kind in "biuf" else None
    except (ImportError, TypeError, ValueError):
        return None
