"""The way from a step to all that it can reach."""

from __future__ import annotations

import functools
import gc
import types
from collections import UserDict, UserList, deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from graphsafe.capture.state.containers import ClassVariables, Variables
from graphsafe.capture.state.contents import Item, below, elements_of, handler_of, stored_in
from graphsafe.capture.state.objects import (
    attributes_of,
    bases_of,
    file_of,
    function_of,
    is_own_file,
    is_users_class,
    names_in,
    namespace_of,
    variables_of,
)
from graphsafe.capture.state.reach import Reach
from graphsafe.capture.state.tensors import Unreadable, parts_of
from graphsafe.capture.state.values import SCALARS, WRITERS, dotted

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.targets import Subject

_MOST_OBJECTS = 50_000
_MANY_CONTAINERS = 5_000
_first_reach: dict[int, tuple[Subject, Reach]] = {}


def reach_of(subject: Subject) -> Reach:
    """Everything behind the callable, then behind the arguments."""
    return walk({"": subject.fn, "args": subject.args, "kwargs": subject.kwargs})


def objects_of(subject: Subject) -> list[Any]:
    """What the step can reach, nearest first: modules, containers and objects of the user's classes."""
    import torch

    walk = Walk()
    with torch._C.DisableTorchFunction():
        walk.run({"": subject.fn, "args": subject.args, "kwargs": subject.kwargs, "refresh": subject.refresh})
    return walk.alive


def seed_generators(subject: Subject, value: int) -> None:
    """Seed every generator that the step can reach. Where that takes long to find out, those that it could reach at the
    first call."""
    known = _first_reach.get(id(subject))
    if known is None or known[0] is not subject:
        known = (subject, reach_of(subject))
        if len(known[1].containers) > _MANY_CONTAINERS:  # else it would keep alive what the target drops
            _first_reach[id(subject)] = known
    known[1].seed(value)


def walk(roots: Mapping[str, Any]) -> Reach:
    import torch

    # What is found stays alive: looking for garbage among it again and again would take most of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with torch._C.DisableTorchFunction():
            return Walk().run(roots)
    finally:
        if collecting:
            gc.enable()


def inputs_of(subject: Subject) -> dict[str, torch.Tensor]:
    """The tensors that are the step's inputs: in its arguments, through tuples, lists, dicts and dataclasses. What lies
    inside any other object (a cache, a module) is state. The paths are those of `reach_of`."""
    import torch

    found: dict[str, torch.Tensor] = {}
    inside = Walk()
    seen: set[int] = set()
    todo: deque[Item] = deque([("args", subject.args, None, None), ("kwargs", subject.kwargs, None, None)])
    with torch._C.DisableTorchFunction():
        while todo and len(seen) < _MOST_OBJECTS:
            path, value, _, _ = todo.popleft()
            kind = type(value)
            if id(value) in seen or issubclass(kind, SCALARS):
                continue
            seen.add(id(value))
            if issubclass(kind, torch.Tensor):
                if not (issubclass(kind, torch.nn.Parameter) or (attributes_of(value) or {}).get("_is_param")):
                    inside.take_tensor(path, value)
            elif issubclass(kind, (dict, list, tuple)):
                todo.extend(elements_of(path, value))
            elif kind is UserDict or kind is UserList or issubclass(kind, Mapping) or is_dataclass(kind):
                todo.extend(stored_in(path, value))
    found.update(inside.reach.tensors)
    return found


class Walk:
    """What has been found, and what is still to be looked at."""

    def __init__(self) -> None:
        self.reach = Reach()
        self.todo: deque[Item] = deque()
        self._seen: set[int] = set()
        self.alive: list[Any] = []
        "What was looked at, in order."
        self._named: set[tuple[int, str]] = set()

    def run(self, roots: Mapping[str, Any]) -> Reach:
        reach, todo, seen = self.reach, self.todo, self._seen
        self.look_at((path, value, None, None) for path, value in roots.items())
        while todo:
            path, value, container, key = todo.popleft()
            handler = handler_of(type(value))
            if handler is None or id(value) in seen:
                continue
            if len(seen) >= _MOST_OBJECTS:
                reach.complete = False
                reach.unreadable["what lies further away"] = f"the step reaches more than {_MOST_OBJECTS} objects"
                break
            seen.add(id(value))
            self.alive.append(value)
            handler(self, path, value)
            if container is not None and (path in reach.hosts or path in reach.tuples or path in reach.tensors):
                reach.owners[path] = (container, key)
        return reach

    def forget(self, value: Any) -> None:
        """There is one object of it for all (a member of an enumeration): each place that holds it counts."""
        self._seen.discard(id(value))

    def take_tensor(self, path: str, tensor: torch.Tensor) -> None:
        try:
            parts = parts_of(tensor)
        except Unreadable as why:
            self.reach.unreadable[path] = str(why)
            return
        if not parts and tensor.is_meta:
            self.reach.hosts[path] = f"meta {tensor.dtype} {list(tensor.shape)}"
        for suffix, part in parts.items():
            self.reach.tensors[path + suffix] = part

    def take_names(self, dot: str, variables: dict[str, Any], names: Set[str]) -> None:
        """Variables of a module, and of the user's own modules that it names; each once."""
        fresh = sorted(name for name in names if (id(variables), name) not in self._named)
        self._named.update((id(variables), name) for name in fresh)
        if not fresh:
            return
        self.reach.containers.append(Variables(variables, tuple(fresh)))
        for name in fresh:
            if name not in variables:
                continue
            item = variables[name]
            inner = variables_of(item)
            if inner is None:
                if not issubclass(type(item), (type, types.BuiltinFunctionType)):
                    self.look_at([(f"{dot}{name}", item, variables, name)])
                continue
            file = file_of(item)
            if file is not None and is_own_file(file):
                of_module = sorted(names & inner.keys())
                self.reach.containers.append(Variables(inner, tuple(sorted(names))))
                for part in of_module:
                    if not issubclass(type(inner[part]), (type, types.ModuleType, types.BuiltinFunctionType)):
                        self.look_at([(f"{dot}{name}.{part}", inner[part], inner, part)])

    def look_at(self, items: Iterable[Item]) -> None:
        """Take numbers and strings at once, and the rest in its turn."""
        reach, todo = self.reach, self.todo
        for item in items:
            write = WRITERS.get(id(type(item[1])))
            if write is None:
                todo.append(item)
                continue
            path, value, container, key = item
            reach.hosts[path] = write(value)
            reach.values[path] = value
            if container is not None:
                reach.owners[path] = (container, key)

    def take_class(self, path: str, kind: type) -> None:
        """The variables of a user's own class, and the module variables that its methods name; not those of an
        installed library's classes. Each class once."""
        if id(kind) in self._seen:
            return
        self._seen.add(id(kind))
        dot = below(path)
        for base in bases_of(kind):
            if not is_users_class(base):
                continue
            kept = tuple(name for name, item in namespace_of(base).items() if _is_class_state(name, item))
            if kept:
                self.reach.containers.append(ClassVariables(base, kept))
            for name, item in namespace_of(base).items():
                if name in kept:
                    self.look_at([(dotted(dot, name), item, base, name)])
                elif type(item) is functools._lru_cache_wrapper:
                    self.todo.append((f"{dot}{name}()", item, base, name))
                method = function_of(item)
                if method is not None and is_own_file(method.__code__.co_filename):
                    self.take_names(dot, method.__globals__, names_in(method.__code__))


def _is_class_state(name: Any, item: Any) -> bool:
    """Variables of a class that a step may fill: not what makes up the class itself."""
    import torch

    if type(name) is not str or name.startswith("__"):
        return False
    return item is None or issubclass(type(item), (torch.Tensor, dict, list, deque, set, bool, int, float))
