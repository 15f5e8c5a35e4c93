"""Finds the names that the running program has for its tensors: `model.layers.0.weight`, `self.cache['keys']`, `x`.

A name keeps no object alive. It holds a weak reference to the first object, and the attributes and indices that lead
from there to the tensor.
"""

from __future__ import annotations

import inspect
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, FunctionType, MethodType
from typing import Any, Literal

import torch

from graphsafe.capture.shared.frames import frames_from, is_user_file

_MOST_OBJECTS = 50_000
_DEEPEST = 24
_OPAQUE = frozenset({"torch", "numpy", "builtins", "threading", "logging", "asyncio", "multiprocessing", "_thread"})
"Objects of these packages are not searched, except for `torch.nn` modules."

MISSING: Any = object()
"The value of an expression that cannot be evaluated."

Move = tuple[Literal["attribute", "parameter", "item", "cell"], Any]


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    root: weakref.ref[Any] | None
    "The object at which the name begins. It is None for a variable of a function, which cannot be looked up later."
    way: tuple[Move, ...]
    tensor: weakref.ref[torch.Tensor]

    def now(self) -> torch.Tensor | None:
        """Return the tensor that has the name now. Return None if there is no tensor or if the name cannot be looked
        up."""
        value = self._along(self.way)
        return value if isinstance(value, torch.Tensor) else None

    def owner(self) -> Any:
        """Return the object that holds the tensor as an attribute or an element, or None if it no longer exists."""
        return self._along(self.way[:-1])

    def _along(self, way: Sequence[Move]) -> Any:
        value = None if self.root is None else self.root()
        for move in way if value is not None else ():
            value = _moved(value, move)
            if value is None:
                break
        return value


def names_in(frames: Sequence[FrameType]) -> dict[int, list[Name]]:
    """Return the names of the tensors that can be reached from the variables of `frames`, by storage number.

    `frames` begins with the innermost frame, and the shortest names come first.
    """
    found: dict[int, list[Name]] = {}
    todo: deque[tuple[str, Any, weakref.ref[Any] | None, tuple[Move, ...]]] = deque()
    seen: set[int] = set()
    for frame in frames:
        todo.extend(_roots(frame))
    while todo and len(seen) < _MOST_OBJECTS:
        text, value, root, way = todo.popleft()
        if issubclass(type(value), torch.Tensor):  # `isinstance` could run the object's `__class__` property
            cdata = storage_number(value)
            if cdata is not None:
                found.setdefault(cdata, []).append(Name(text, root, way, weakref.ref(value)))
            if value.is_leaf and value.grad is not None and root is not None:
                todo.append((f"{text}.grad", value.grad, root, (*way, ("attribute", "grad"))))
            continue
        if id(value) in seen or len(way) >= _DEEPEST:
            continue
        seen.add(id(value))
        if root is None:
            root, way = weak_to(value), ()
        for suffix, item, move in _inside(value):
            todo.append((text + suffix, item, root, (*way, move)))
    return found


def graphed_results(graph: Any, frame: FrameType) -> dict[int, list[Name]]:
    """Return the results of a function that `make_graphed_callables` captures in `graph`, by storage number.

    No variable of the program holds these results.
    """
    maker = next((one for one in frames_from(frame) if one.f_code.co_name == "make_graphed_callables"), None)
    shown = {} if maker is None else locals_of(maker)
    found: dict[int, list[Name]] = {}
    todo: list[Any] = [shown["func_outputs"]] if shown.get("fwd_graph") is graph else []
    while todo:
        value = todo.pop()
        number = storage_number(value) if issubclass(type(value), torch.Tensor) else None
        if number is not None:
            found.setdefault(number, []).append(Name("a result", None, (), weakref.ref(value)))
        todo += elements_of(value)
    return found


def storage_number(tensor: torch.Tensor) -> int | None:
    """Return the number of a tensor's storage. Return None for a wrapper subclass, which has no storage of its own."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return None


def place_of(tensor: torch.Tensor) -> range | None:
    """Return the addresses of a contiguous tensor, or None for any other tensor."""
    if tensor.layout is not torch.strided or not tensor.is_contiguous() or not tensor.numel():
        return None
    begin = tensor.data_ptr()
    return range(begin, begin + tensor.nbytes)


def is_inside(inner: range, outer: range) -> bool:
    return outer.start <= inner.start and inner.stop <= outer.stop


def addresses_of(storage: torch.UntypedStorage) -> range:
    begin = storage.data_ptr()
    return range(begin, begin + storage.nbytes())


def storage_numbers(tensors: Iterable[torch.Tensor]) -> frozenset[int]:
    """Return the numbers of the storages of tensors that have their own memory."""
    return frozenset(number for tensor in tensors if (number := storage_number(tensor)) is not None)


def is_called_by_trees(frame: FrameType | None) -> bool:
    """Return whether Inductor's CUDA graph trees are among the callers."""
    return any(one.f_code.co_filename.endswith("cudagraph_trees.py") for one in frames_from(frame))


def _roots(frame: FrameType) -> Iterator[tuple[str, Any, weakref.ref[Any] | None, tuple[Move, ...]]]:
    module = sys.modules.get(frame.f_globals.get("__name__", ""))
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        for name, value in locals_of(frame).items():
            yield name, value, None, ()
        names: Sequence[str] = frame.f_code.co_names
    else:
        names = [name for name in frame.f_globals if not name.startswith("__")]
    for name in names:
        if name in frame.f_globals:
            known = module is not None and vars(module) is frame.f_globals
            root = weakref.ref(module) if known else None
            yield name, frame.f_globals[name], root, (("attribute", name),) if known else ()


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return a copy of a function's variables.

    Up to Python 3.12, a frame keeps the dict `f_locals`, and with it the values, as long as the function runs.
    `locals_of` therefore empties the dict, except at module and class level, where the dict is the namespace itself.
    """
    shown = frame.f_locals
    copied = dict(shown)
    if type(shown) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        shown.clear()
    return copied


def _inside(value: Any) -> Iterator[tuple[str, Any, Move]]:
    kind = type(value)  # `isinstance` could run the object's `__class__` property
    if kind in (list, tuple) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        yield from ((f"[{at}]", item, ("item", at)) for at, item in enumerate(elements_of(value)) if _worth(item))
    elif issubclass(kind, dict):
        items = list(dict.items(value))
        yield from ((f"[{key!r}]", item, ("item", key)) for key, item in items if _plain_key(key) and _worth(item))
    elif issubclass(kind, torch.nn.Module):
        for table in (value._parameters, value._buffers):
            yield from ((f".{name}", item, ("parameter", name)) for name, item in table.items() if item is not None)
        yield from ((f".{name}", item, ("attribute", name)) for name, item in value._modules.items())
        yield from _attributes(vars(value))
    elif kind is types.MethodType:
        yield ".__self__", value.__self__, ("attribute", "__self__")
    elif kind is types.FunctionType:
        for at, cell in enumerate(value.__closure__ or ()):
            try:
                item = cell.cell_contents
            except ValueError:  # the closure's variable has no value yet
                continue
            if _worth(item):
                yield f".{value.__code__.co_freevars[at]}", item, ("cell", at)
    elif issubclass(kind, (type, types.ModuleType)):
        held = _namespace(value)
        if str(held.get("__module__" if issubclass(kind, type) else "__name__")).partition(".")[0] not in _OPAQUE:
            yield from _attributes({name: one for name, one in held.items() if type(one) is not types.FunctionType})
    elif kind.__module__.partition(".")[0] not in _OPAQUE:
        yield from _attributes(attributes_of(value))


def elements_of(value: Any) -> tuple[Any, ...]:
    """Return the elements of a list, tuple, deque or dict, without running methods of a subclass. Return () for any
    other object."""
    kind = type(value)
    for plain, read in _READERS:
        if issubclass(kind, plain):
            return tuple(read(value))
    return ()


_READERS: tuple[tuple[type, Callable[[Any], Iterable[Any]]], ...] = (
    (list, list.__iter__),
    (tuple, tuple.__iter__),
    (deque, deque.__iter__),
    (dict, dict.values),
)


def attributes_of(value: Any) -> Mapping[str, Any]:
    """Return an object's attributes, without running its `__getattr__`."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return attributes if type(attributes) is dict else {}


def methods_of(value: Any) -> Iterator[FunctionType]:
    """Yield the methods of an object that are written in files of the program."""
    for one in (one for kind in type(value).__mro__ for one in list(vars(kind).values())):
        if type(one) is FunctionType and is_user_file(one.__code__.co_filename):
            yield one


def _namespace(value: Any) -> Mapping[str, Any]:
    """Return the attributes of an object, a module or a class, without those of a class's bases."""
    return type.__getattribute__(value, "__dict__") if issubclass(type(value), type) else attributes_of(value)


def _attributes(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any, Move]]:
    for name, item in list(attributes.items()):
        if isinstance(name, str) and not name.startswith("_") and _worth(item):
            yield f".{name}", item, ("attribute", name)


def _worth(item: Any) -> bool:
    return item is not None and not issubclass(type(item), _WORTHLESS)


_WORTHLESS = (str, bytes, int, float, complex, type, types.ModuleType)


def _plain_key(key: Any) -> bool:
    return type(key) in (str, int) or (type(key) is tuple and all(map(_plain_key, key)))


def _moved(value: Any, move: Move) -> Any:
    """Follow one step of a name: return the attribute or element of `value`, without running the user's code."""
    how, key = move
    try:
        if how == "parameter":
            return value._parameters.get(key, value._buffers.get(key))
        if how == "item":
            return dict.get(value, key) if issubclass(type(value), dict) else value[key]
        if how == "cell":
            return value.__closure__[key].cell_contents
        if isinstance(value, torch.Tensor):
            return value.grad if key == "grad" else None
        if key == "__self__":
            return value.__self__
        attributes = _namespace(value)
        return attributes[key] if key in attributes else attributes["_modules"][key]
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        return None


def weak_to(value: Any) -> weakref.ref[Any] | None:
    """Return a weak reference, or None if the value supports none."""
    try:
        return weakref.ref(value)
    except TypeError:
        return None


def attribute(value: Any, name: str) -> Any:
    """Return an attribute of an object, without running the program's code."""
    if value is MISSING or value is None or type(name) is not str:
        return MISSING
    own = attributes_of(value)
    tables = ("_modules", "_parameters", "_buffers") if issubclass(type(value), torch.nn.Module) else ()
    for table in (own, *(own.get(one) or {} for one in tables)):
        if name in table:
            return table[name]
    kind = value if isinstance(value, type) else type(value)
    found = inspect.getattr_static(kind, name, MISSING)
    if type(found) in (staticmethod, classmethod):
        return found.__func__ if type(found) is staticmethod else MethodType(found.__func__, kind)
    if type(found) is FunctionType:
        return MethodType(found, value) if kind is not value else found
    if isinstance(found, types.MemberDescriptorType):
        try:
            return found.__get__(value)
        except AttributeError:
            return MISSING
    fields = getattr(kind, "_fields", ())
    if issubclass(kind, tuple) and name in fields:
        return tuple.__getitem__(value, fields.index(name))
    return MISSING if inspect.isdatadescriptor(found) else found
