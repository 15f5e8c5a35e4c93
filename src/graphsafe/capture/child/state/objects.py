"""Reads attributes of objects and classes as they are stored, without running any of their code. Also finds whether an
object holds tensors, if its class is not the user's own."""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import queue
import sys
import threading
import types
from collections import ChainMap, UserDict, UserList
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from graphsafe.capture.shared.frames import is_user_file, written_at
from graphsafe.report.model import CallSite

Result = TypeVar("Result")

bases_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_NAMESPACE = type.__dict__["__dict__"].__get__
_MODULE = type.__dict__["__module__"].__get__
_MODULE_VARIABLES: Callable[[Any], dict[str, Any]] = vars(types.ModuleType)["__dict__"].__get__
_MOST_DECORATORS = 20
_DATA = (
    *(types.SimpleNamespace, argparse.Namespace, UserDict, UserList, ChainMap),
    *(functools.partial, functools.partialmethod),
    *(queue.Queue, queue.LifoQueue, queue.PriorityQueue, threading.local),
    *(asyncio.Queue, asyncio.LifoQueue, asyncio.PriorityQueue),
)
"Classes of the standard library that exist to hold a user's values."


def namespace_of(kind: type) -> dict[str, Any]:
    """Return the class's own variables, without those of its bases."""
    return dict(_NAMESPACE(kind))


def variables_of(module: Any) -> dict[str, Any] | None:
    """Return a module's own dict; None if the value is not a module. `sys.modules` may contain other objects too."""
    return _MODULE_VARIABLES(module) if issubclass(type(module), types.ModuleType) else None


def file_of(module: Any) -> str | None:
    file = (variables_of(module) or {}).get("__file__")
    return file if type(file) is str else None


def module_name(kind: type) -> str:
    try:
        name = _MODULE(kind)  # NumPy's array type, written in C, has no `__module__` of its own
    except AttributeError:
        return ""
    return name if type(name) is str else ""


def is_users_class(kind: type) -> bool:
    """Return whether a class is defined in a Python file for which `is_user_file` is true."""
    if "__module__" not in _NAMESPACE(kind):  # the class is written in C
        return False
    file = file_of(sys.modules.get(module_name(kind)))
    return file is not None and is_user_file(file)


def holds_state(kind: type) -> bool:
    """Return whether objects of this class hold state. This is true of the user's classes, of optimisers and of simple
    namespaces."""
    if issubclass(kind, (type, types.ModuleType, types.BuiltinFunctionType)):
        return False
    if kind in _DATA:
        return True
    return module_name(kind).startswith("torch.optim") or any(is_users_class(base) for base in bases_of(kind))


@dataclass(frozen=True, slots=True)
class Layout:
    """The places in which the instances of a class store their attributes."""

    attributes: Callable[[Any], Any] | None
    "Returns the `__dict__` of an instance."
    slots: tuple[tuple[str, Any], ...]


def cached_per_class(find: Callable[[type], Result]) -> Callable[[type], Result]:
    """Cache a result for each class, by its address: hashing a class may run code of its metaclass."""
    known: dict[int, tuple[type, Result]] = {}

    def ask(kind: type) -> Result:
        answer = known.get(id(kind))
        if answer is None:
            answer = known[id(kind)] = (kind, find(kind))
        return answer[1]

    return ask


@cached_per_class
def layout_of(kind: type) -> Layout:
    attributes = None
    slots: list[tuple[str, Any]] = []
    for base in bases_of(kind):
        found = _NAMESPACE(base).get("__dict__")
        if attributes is None and type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            attributes = found.__get__
        if "__slots__" in _NAMESPACE(base):
            slots += [(name, of) for name, of in _NAMESPACE(base).items() if type(of) is types.MemberDescriptorType]
    return Layout(attributes, tuple(slots))


def attributes_of(value: Any) -> dict[str, Any] | None:
    """Return the object's own `__dict__`, or None. A `threading.local` has one `__dict__` for each thread."""
    if issubclass(type(value), threading.local):
        return threading.local.__getattribute__(value, "__dict__")  # type: ignore[no-any-return]
    read = layout_of(type(value)).attributes
    attributes = None if read is None else read(value)
    return attributes if type(attributes) is dict else None


def names_in(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_in(constant)
    return names


def function_of(item: Any) -> types.FunctionType | None:
    if type(item) in (staticmethod, classmethod):
        item = item.__func__
    elif type(item) is property:
        item = item.fget
    elif type(item) is functools._lru_cache_wrapper:
        item = item.__wrapped__
    return item if type(item) is types.FunctionType else None


def code_of(called: Any) -> types.CodeType | None:
    """Return the code that a call runs: the code of the function inside decorators, or of a module's `forward`."""
    if issubclass(type(called), functools.partial):
        return code_of(functools.partial.func.__get__(called))
    if type(called) is types.MethodType:
        return code_of(called.__func__)
    function = function_of(called)
    if function is None:
        named = [namespace_of(base).get(name) for name in ("forward", "__call__") for base in bases_of(type(called))]
        function = next((found for found in map(function_of, named) if found is not None), None)
    for _ in range(_MOST_DECORATORS):
        wrapped = None if function is None else function_of(function.__dict__.get("__wrapped__"))
        function = wrapped or function
    return None if function is None else function.__code__


def defined_at(called: Any) -> CallSite | None:
    """Return where the code of a function or a module is written; None if it is not the user's, as for `gc.collect`."""
    return written_at(code_of(called))


def is_own_file(file: str) -> bool:
    """Return whether a file belongs to the user's project and not to an installed library."""
    return "-packages" not in file and is_user_file(file)


_MOST_HELD = 1_000
_LEVELS = 6
"""The largest number of references in a chain from an object to a tensor in it. A list in an attribute may take two:
from the object to its `__dict__`, and from the `__dict__` to the list."""
_RUNS = ("distributed", "multiprocessing", "export", "fx", "jit", "package", "onnx", "profiler")
"""Parts of torch whose objects run steps, or describe them. Either the tensors in such objects are not state, or steps
do not use them."""


def holds_tensor(value: Any) -> bool:
    """Return whether a short chain of references leads from the object to a tensor. Chains through parameters and
    modules are ignored, because parameters and modules belong to the step itself."""
    level, seen = [value], {id(value)}
    for _ in range(_LEVELS):
        found = [item for one in level for item in _referents(one)]
        level = []
        for item in found:
            if id(item) in seen:
                continue
            kind = type(item)
            if issubclass(kind, torch.Tensor) and not issubclass(kind, torch.nn.Parameter):
                return True
            seen.add(id(item))
            level.append(item)
        if len(seen) > _MOST_HELD:
            return False
    return False


def _referents(value: Any) -> Iterable[Any]:
    kind = type(value)
    if issubclass(kind, (type, types.ModuleType, types.CodeType, torch.nn.Module, torch.Tensor)):
        return ()
    if issubclass(kind, types.FunctionType):  # a function also refers to all variables of its module
        return (value.__closure__, value.__defaults__, value.__kwdefaults__)
    return gc.get_referents(value)


@cached_per_class
def is_torch_data(kind: type) -> bool:
    """Return whether objects of this class of torch may be state: a distribution, a mask, a scaler of gradients."""
    package, _, rest = module_name(kind).partition(".")
    part = rest.partition(".")[0]
    is_loader = rest.startswith("utils.data")
    return package == "torch" and bool(part) and not part.startswith("_") and part not in _RUNS and not is_loader
