"""Walks from a step to everything that it can reach, and lists the elements of a container and the attributes of an
object."""

from __future__ import annotations

import enum
import functools
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

import torch

from graphsafe.capture.child.state.containers import MISSING, WEAK_TABLES, Slot, Variables
from graphsafe.capture.child.state.objects import (
    attributes_of,
    bases_of,
    file_of,
    function_of,
    holds_state,
    is_own_file,
    is_users_class,
    layout_of,
    module_name,
    names_in,
    namespace_of,
    variables_of,
)
from graphsafe.capture.child.state.reach import ReachableState
from graphsafe.capture.child.state.tensors import Unreadable, parts_of
from graphsafe.capture.child.state.values import SCALARS, WRITERS, dotted, key_text

Item = tuple[str, Any, Any, Any]
"A path, the object at this path, and the container and key that hold it."
Handler = Callable[["ObjectWalk", str, Any], None]
MOST_OBJECTS = 50_000


def below(path: str) -> str:
    return f"{path}." if path else ""


class ObjectWalk:
    """The objects found so far, and the objects still to visit."""

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST_OBJECTS if most is None else most
        self.reach = ReachableState()
        self.todo: deque[Item] = deque()
        self._later: deque[Iterable[Item]] = deque()
        self._last: deque[Iterable[Item]] = deque()
        self._seen: set[int] = set()
        self.alive: list[Any] = []
        "The visited objects, in order."
        self._named: set[tuple[int, str]] = set()
        self._paths: set[str] = set()
        "The paths of all items that have been found so far."

    def run(self, roots: Mapping[str, Any], handler_of: Callable[[type], Handler | None]) -> ReachableState:
        """Visit the roots and all objects that they refer to, nearest first."""
        reach, todo, seen = self.reach, self.todo, self._seen
        self.enqueue((path, value, None, None) for path, value in roots.items())
        while self._has_more():
            path, value, container, key = todo.popleft()
            handler = handler_of(type(value))
            if handler is None or id(value) in seen:
                continue
            if len(seen) >= self._most:
                reach.unreadable["objects further away"] = f"the step reaches more than {self._most} objects"
                break
            seen.add(id(value))
            self.alive.append(value)
            handler(self, path, value)
            if container is not None and (path in reach.hosts or path in reach.tuples or path in reach.tensors):
                reach.owners[path] = (container, key)
            if container is not None and path in reach.sized:
                reach.holders[path] = (container, key)
        return reach

    def _has_more(self) -> bool:
        while not self.todo and (self._later or self._last):
            self.enqueue((self._later or self._last).popleft())
        return bool(self.todo)

    def later(self, items: Iterable[Item]) -> None:
        """Visit these items after all items that are known so far. If an attribute of one of the user's objects also
        holds an item, the item gets the name of that attribute."""
        self._later.append(items)

    def last(self, items: Iterable[Item]) -> None:
        """Visit these items when nothing else is left, because their names tell a user little."""
        self._last.append(items)

    def forget(self, value: Any) -> None:
        """Visit an object again at each of its holders. A member of an enumeration has several holders."""
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
        """Visit variables of a module. If a variable is itself one of the user's own modules, visit the variables of
        that module too. Each variable is visited once."""
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
                if not _is_code(item):
                    self.enqueue([(f"{dot}{name}", item, variables, name)])
                continue
            file = file_of(item)
            if file is not None and is_own_file(file):
                of_module = sorted(names & inner.keys())
                self.reach.containers.append(Variables(inner, tuple(sorted(names))))
                for part in of_module:
                    if not _is_code(inner[part]):
                        self.enqueue([(f"{dot}{name}.{part}", inner[part], inner, part)])

    def enqueue(self, items: Iterable[Item]) -> None:
        """Add numbers and strings to the reach immediately, and put all other objects on the queue."""
        reach, todo = self.reach, self.todo
        for item in items:
            self._paths.add(item[0])
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
        """Visit the variables of a user's own class, the module variables that its methods name, and the closures and
        defaults of its methods. Classes of installed libraries are left out. Each class is visited once."""
        if id(kind) in self._seen:
            return
        self._seen.add(id(kind))
        dot = below(path)
        for base in bases_of(kind):
            if not is_users_class(base):
                continue
            kept = tuple(name for name, item in namespace_of(base).items() if _is_class_state(name, item))
            if kept:
                self.reach.containers.append(Variables(base, kept))
            for name, item in namespace_of(base).items():
                if name in kept:
                    whole = dotted(dot, name)
                    # An attribute of the object, or a variable of a nearer class, hides this variable.
                    hidden = whole in self._paths
                    self.enqueue([(f"{dot}{base.__name__}.{name}" if hidden else whole, item, base, name)])
                elif type(item) is functools._lru_cache_wrapper:
                    self.todo.append((f"{dot}{name}()", item, base, name))
                method = function_of(item)
                if method is not None and is_own_file(method.__code__.co_filename):
                    self.take_names(dot, method.__globals__, names_in(method.__code__))
                    if method.__closure__ or method.__defaults__ or method.__kwdefaults__:
                        # A class that is written inside a factory closes over the factory's tensors and settings.
                        self.todo.append((f"{dot}{name}()", method, base, name))


def _is_code(item: Any) -> bool:
    """Return whether the object is a module, a function written in C, or a class from outside of the project."""
    if issubclass(type(item), (types.ModuleType, types.BuiltinFunctionType)):
        return True
    if not issubclass(type(item), type):
        return False
    file = file_of(sys.modules.get(module_name(item)))
    return file is None or not is_own_file(file)


def _is_class_state(name: Any, item: Any) -> bool:
    """Return whether a class variable is state that a step may fill, and not part of the class itself."""
    if type(name) is not str or name.startswith("__"):
        return False
    kinds = (*SCALARS, torch.Tensor, dict, list, deque, set, *WEAK_TABLES)
    return issubclass(type(item), kinds) or holds_state(type(item))


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
        if not issubclass(type(key), (*SCALARS, tuple, type, types.FunctionType, enum.Enum)):
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


_MOST_IN_ELEMENT = 200
_order_keys: dict[int, tuple[Any, str]] = {}
"""Address of an element -> a weak reference to the element, and the key that it had when a walk first saw it. Later the
element's values may differ between processes: a count in Python code, for example, grows in eager steps but not in
replays."""


def in_order(elements: Any, handler_of: Callable[[type], Handler | None]) -> tuple[list[Any], bool]:
    """Return the elements of a set that are not numbers or strings. They are ordered by the contents that they had
    right after construction, because Python orders them by address. The second result says whether all elements have
    different contents."""
    objects = [element for element in elements if not issubclass(type(element), SCALARS)]
    if len(objects) < 2:
        return objects, True
    keyed = [(_order_key(element, handler_of), element) for element in objects]
    keyed.sort(key=lambda one: one[0])
    return [element for _, element in keyed], len({key for key, _ in keyed}) == len(keyed)


def _order_key(element: Any, handler_of: Callable[[type], Handler | None]) -> str:
    seen = _order_keys.get(id(element))
    if seen is not None and seen[0]() is element:
        return seen[1]
    kind = type(element)
    name = f"{module_name(kind)}.{kind.__name__}"
    try:
        reference = weakref.ref(element, functools.partial(_forget, id(element)))
    except TypeError:  # objects of some classes, such as tuples, cannot have weak references
        return name
    # The element may refer to the set, so sets are left out.
    reach = ObjectWalk(_MOST_IN_ELEMENT).run(
        {"": element}, lambda kind: None if issubclass(kind, (set, frozenset)) else handler_of(kind)
    )
    layouts = {path: f"{tensor.dtype} {list(tensor.shape)}" for path, tensor in reach.tensors.items()}
    key = f"{name} {sorted(reach.hosts.items())} {sorted(layouts.items())} {sorted(reach.lengths.items())}"
    _order_keys[id(element)] = reference, key
    return key


def _forget(address: int, reference: Any) -> None:
    seen = _order_keys.get(address)
    if seen is not None and seen[0] is reference:
        del _order_keys[address]
