"""What a step can reach: every tensor, host value and container behind its callable and its arguments, by path.

A path reads as the user would write it from the target: `layers.0.weight`, `args[1]`, `kwargs['cache'].key`, or a
variable of the step's closure or module. The same program gives the same paths in every child.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence, Set
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from graphsafe.capture.frames import is_user_file
from graphsafe.capture.targets import users_code

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.device.protocol import Device
    from graphsafe.capture.targets import Subject

_MOST_OBJECTS = 200_000
_LONG_LIST = 1_000
_VALUE_BYTES = 4 << 30
"Tensors up to this many bytes in all are kept by value for putting back; above it, only their digests."

HostValue = str
"The `repr` of a number or a string, or a digest of something larger."


@dataclass
class Reach:
    """`lengths` counts the elements of lists and dicts; `complete` is False where there was too much to walk."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    hosts: dict[str, HostValue] = field(default_factory=dict)
    generators: dict[str, torch.Generator] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    containers: list[Any] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    "Tensors whose bytes have no plain layout (sparse, nested, a subclass)."
    complete: bool = True


def reach_of(subject: Subject) -> Reach:
    """Everything behind the callable, then behind the arguments."""
    return walk({"": subject.fn, "args": subject.args, "kwargs": subject.kwargs})


def walk(roots: Mapping[str, Any]) -> Reach:
    import torch

    reach = Reach()
    seen: set[int] = set()
    alive: list[Any] = []
    todo: deque[tuple[str, Any]] = deque(roots.items())
    while todo:
        path, value = todo.popleft()
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            reach.hosts[path] = repr(value) if not isinstance(value, (str, bytes)) or len(value) < 80 else _hash(value)
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        alive.append(value)
        if len(seen) > _MOST_OBJECTS:
            reach.complete = False
            break
        if isinstance(value, torch.Tensor):
            (reach.tensors.__setitem__(path, value) if _is_plain(value) else reach.unreadable.append(path))
            if value.is_leaf and value.grad is not None:
                todo.append((f"{path}.grad", value.grad))
            continue
        if isinstance(value, torch.Generator):
            reach.generators[path] = value
            continue
        if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
            reach.hosts[path] = _hash(value.tobytes())
            continue
        todo.extend(_behind(path, value, reach))
    return reach


def inputs_of(subject: Subject) -> dict[str, torch.Tensor]:
    """The tensors that are the step's inputs: in its arguments, through tuples, lists, dicts and dataclasses. What lies
    inside any other object (a cache, a module) is state."""
    import torch

    found: dict[str, torch.Tensor] = {}
    todo: list[tuple[str, Any]] = [("args", subject.args), ("kwargs", subject.kwargs)]
    while todo:
        path, value = todo.pop(0)
        if isinstance(value, torch.Tensor):
            if _is_plain(value) and not isinstance(value, torch.nn.Parameter):
                found.setdefault(path, value)
        elif isinstance(value, Mapping):
            todo += [(f"{path}[{key!r}]", item) for key, item in value.items()]
        elif isinstance(value, (tuple, list)):
            todo += [(f"{path}[{index}]", item) for index, item in enumerate(value)]
        elif is_dataclass(value) and not isinstance(value, type):
            todo += [(f"{path}.{part.name}", getattr(value, part.name, None)) for part in fields(value)]
    return found


class StateError(Exception):
    """What a step changed cannot be put back; one line."""


class Snapshot:
    """State as it was, to put back: what containers held, and the tensors' values."""

    def __init__(self, device: Device, subject: Subject) -> None:
        self._device = device
        self._subject = subject
        reach = reach_of(subject)
        self._containers = [(container, _contents(container)) for container in reach.containers]
        self._tensors = reach.tensors
        self.digests = {path: device.digest(tensor) for path, tensor in reach.tensors.items()}
        self.values: dict[str, torch.Tensor] = {}
        "Host copies, of as many tensors as the budget allows, the small ones first."
        budget = _VALUE_BYTES
        for path, tensor in sorted(reach.tensors.items(), key=lambda item: item[1].nbytes):
            budget -= tensor.nbytes
            if budget < 0:
                break
            self.values[path] = device.to_host(tensor)

    def put_back(self) -> None:
        """Raises StateError where a container refuses, or a tensor too large to be kept was changed."""
        for container, contents in self._containers:
            try:
                _refill(container, contents)
            except Exception as error:
                raise StateError(f"a {type(container).__name__} cannot be put back: {error}") from error
        for path, tensor in self._tensors.items():
            if self._device.digest(tensor) == self.digests[path]:
                continue
            if path not in self.values:
                raise StateError(f"{path} changed and is too large to be put back")
            self._device.store(tensor, self.values[path])
        if self._subject.reset is not None:
            with users_code("step", "reset failed"):
                self._subject.reset()


def _is_plain(tensor: torch.Tensor) -> bool:
    import torch

    return (
        tensor.layout == torch.strided
        and not tensor.is_quantized
        and not tensor.is_nested
        and tensor.device.type != "meta"
    )


def _hash(value: str | bytes) -> str:
    return hashlib.blake2b(value if isinstance(value, bytes) else value.encode(), digest_size=8).hexdigest()


def _behind(path: str, value: Any, reach: Reach) -> Iterator[tuple[str, Any]]:
    import torch

    dot = f"{path}." if path else ""
    kind: Any = type(value)
    if isinstance(value, Mapping):
        reach.lengths[path] = len(value)
        reach.containers.append(value)
        for index, (key, item) in enumerate(list(value.items())):
            name = repr(key) if isinstance(key, (str, int, float, bool, tuple)) else f"#{index}"
            yield f"{path}[{name}]", item
    elif isinstance(value, (list, tuple, deque)):
        reach.lengths[path] = len(value)
        if not isinstance(value, tuple):
            reach.containers.append(value)
        if len(value) > _LONG_LIST and isinstance(value[0], (bool, int, float, str)):
            reach.hosts[path] = _hash(repr(value))
            return
        for index, item in enumerate(list(value)):
            yield f"{path}[{index}]", item
    elif isinstance(value, (set, frozenset)):
        reach.lengths[path] = len(value)
    elif isinstance(value, torch.nn.Module):
        yield from _behind_module(dot, value, reach)
    elif isinstance(value, functools.partial):
        yield f"{dot}func", value.func
        yield f"{dot}args", value.args
        yield f"{dot}keywords", value.keywords
    elif isinstance(value, types.MethodType):
        yield path, value.__self__
        yield f"{dot}{value.__name__}()", value.__func__
    elif isinstance(value, types.FunctionType):
        yield from _behind_function(dot, value, reach)
    elif isinstance(value, functools._lru_cache_wrapper):
        reach.containers.append(value)
        yield path, value.__wrapped__
    elif _holds_state(kind):
        if isinstance(getattr(value, "__dict__", None), dict):
            reach.containers.append(value.__dict__)
            for name, item in list(value.__dict__.items()):
                yield f"{dot}{name}", item
        for name in _slots(kind):
            if hasattr(value, name):
                yield f"{dot}{name}", getattr(value, name)
        yield from _behind_methods(dot, kind, reach)


@functools.cache
def _module_machinery() -> frozenset[str]:
    import torch

    return frozenset(torch.nn.Module().__dict__)


def _behind_module(dot: str, module: Any, reach: Reach) -> Iterator[tuple[str, Any]]:
    reach.containers += [module.__dict__, module._parameters, module._buffers, module._modules]
    for store in (module._parameters, module._buffers, module._modules):
        for name, item in list(store.items()):
            yield f"{dot}{name}", item
    for name, item in list(module.__dict__.items()):
        if name not in _module_machinery():
            yield f"{dot}{name}", item
    yield from _behind_methods(dot, type(module), reach)


def _behind_function(dot: str, function: types.FunctionType, reach: Reach) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f"{dot}{name}", cell.cell_contents
        except ValueError:
            continue
        reach.containers.append(cell)
    if function.__dict__:
        reach.containers.append(function.__dict__)
        for name, item in list(function.__dict__.items()):
            yield f"{dot}{name}", item
    if is_user_file(function.__code__.co_filename):
        yield from _behind_names(dot, function.__globals__, _names_in(function.__code__), reach)


def _behind_methods(dot: str, kind: type, reach: Reach) -> Iterator[tuple[str, Any]]:
    """The module variables that the methods of a user's own class name; not those of an installed library's classes."""
    for base in kind.__mro__:
        if base.__module__ != "builtins" and is_user_file(
            getattr(sys.modules.get(base.__module__), "__file__", None) or "<"
        ):
            kept = tuple(name for name, item in vars(base).items() if _is_class_state(name, item))
            reach.containers.append(_ClassNames(base, kept))
            for name in kept:
                yield f"{dot}{name}", vars(base)[name]
        for method in vars(base).values():
            if not isinstance(method, types.FunctionType) or "-packages" in method.__code__.co_filename:
                continue
            if is_user_file(method.__code__.co_filename):
                yield from _behind_names(dot, method.__globals__, _names_in(method.__code__), reach)


def _behind_names(dot: str, variables: dict[str, Any], names: Set[str], reach: Reach) -> Iterator[tuple[str, Any]]:
    """Variables of a module, and of the user's own modules that it names."""
    reach.containers.append(_Names(variables, tuple(sorted(names))))
    for name in sorted(names & variables.keys()):
        item = variables[name]
        if isinstance(item, types.ModuleType):
            file = getattr(item, "__file__", None) or "<builtin>"
            if is_user_file(file) and "-packages" not in file:
                reach.containers.append(_Names(vars(item), tuple(sorted(names))))
                for inner in sorted(names & vars(item).keys()):
                    if not isinstance(vars(item)[inner], (type, types.ModuleType, types.BuiltinFunctionType)):
                        yield f"{dot}{name}.{inner}", vars(item)[inner]
        elif not isinstance(item, (type, types.BuiltinFunctionType)):
            yield f"{dot}{name}", item


def _names_in(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names


@functools.cache
def _holds_state(kind: Any) -> bool:
    """Objects of the user's own classes, of optimisers, and plain namespaces; not locks, loggers, streams or types."""
    if issubclass(kind, (type, types.ModuleType, types.BuiltinFunctionType)):
        return False
    if kind is types.SimpleNamespace:
        return True
    if kind.__module__.startswith("torch.optim"):
        return True
    module = sys.modules.get(kind.__module__)
    filename = getattr(module, "__file__", None)
    return filename is not None and is_user_file(filename)


@functools.cache
def _slots(kind: Any) -> tuple[str, ...]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    return tuple(name for name in names if not name.startswith("__"))


def _is_class_state(name: str, item: Any) -> bool:
    """Variables of a class that a step may fill: not what makes up the class itself."""
    import torch

    return not name.startswith("__") and (
        item is None or isinstance(item, (torch.Tensor, dict, list, bool, int, float))
    )


@dataclass(frozen=True, slots=True)
class _ClassNames:
    """Some variables of a class, as a container."""

    owner: type
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Names:
    """Some variables of a module, as a container."""

    variables: dict[str, Any]
    names: tuple[str, ...]


def _contents(container: Any) -> Any:
    if isinstance(container, functools._lru_cache_wrapper):
        return None
    if isinstance(container, _ClassNames):
        return {name: vars(container.owner)[name] for name in container.names}
    if isinstance(container, _Names):
        return {name: container.variables[name] for name in container.names if name in container.variables}
    if isinstance(container, types.CellType):
        return container.cell_contents
    return dict(container) if isinstance(container, Mapping) else list(container)


def _refill(container: Any, contents: Any) -> None:
    if isinstance(container, functools._lru_cache_wrapper):
        container.cache_clear()
    elif isinstance(container, _ClassNames):
        for name in container.names:
            if vars(container.owner).get(name) is not contents[name]:
                setattr(container.owner, name, contents[name])
    elif isinstance(container, _Names):
        for name in container.names:
            if name in contents:
                container.variables[name] = contents[name]
            else:
                container.variables.pop(name, None)
    elif isinstance(container, types.CellType):
        container.cell_contents = contents
    elif isinstance(container, MutableMapping):
        if not _same(list(container.items()), list(contents.items())):
            container.clear()
            container.update(contents)
    elif isinstance(container, (MutableSequence, deque)) and not _same(list(container), contents):
        container.clear()
        container.extend(contents)


def _same(left: list[Any], right: list[Any]) -> bool:
    """Element by element the same objects; `==` on tensors would compare their values."""

    def parts(item: Any) -> tuple[Any, ...]:
        return item if isinstance(item, tuple) else (item,)

    return len(left) == len(right) and all(
        len(parts(a)) == len(parts(b)) and all(x is y for x, y in zip(parts(a), parts(b), strict=True))
        for a, b in zip(left, right, strict=True)
    )
