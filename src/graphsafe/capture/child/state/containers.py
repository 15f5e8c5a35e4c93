"""Reads and refills each kind of object that holds values and references, without running the user's code."""

from __future__ import annotations

import ast
import functools
import gc
import itertools
import operator
import queue
import types
import weakref
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import suppress
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.child.state.objects import bases_of, module_name, namespace_of
from graphsafe.capture.child.state.reach import ReachableState
from graphsafe.capture.child.state.values import are_scalars

_SEQUENCES: tuple[Any, ...] = ([], (), "", "é", b"", range(0), range(1 << 70))
OVER_SEQUENCES = tuple(type(iter(sequence)) for sequence in _SEQUENCES)
"Classes of iterators whose position can be read and set."
_UNORDERED: tuple[Any, ...] = ({}, {}.values(), {}.items(), set())
OPAQUE = (
    *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
    queue.SimpleQueue,
    *(type(iter(view)) for view in _UNORDERED),
    *(map, filter, zip, enumerate, reversed, type(reversed([])), type(iter(int, 1))),
    *(made for made in vars(itertools).values() if isinstance(made, type) and made is not itertools.count),
)
"Classes whose objects have a position that cannot be read."
WEAK_TABLES = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary)


def count_text(counter: Any) -> str | None:
    """Return a counter as a string, such as `count(5)`. Return None if the numbers of the counter are objects of
    another library."""
    numbers = [one for one in gc.get_referents(counter) if one is not itertools.count]  # its type, from Python 3.13 on
    return repr(counter) if are_scalars(numbers) else None


def count_from(text: str) -> Any:
    start, *step = ast.literal_eval(text.removeprefix("count").replace(")", ",)"))
    return itertools.count(start, *step)


def position_of(iterator: Any) -> int | None:
    """Return how many elements the iterator has returned. Return None at the end, where the iterator has dropped its
    sequence."""
    reported = iterator.__reduce__()
    return reported[2] if len(reported) > 2 else 0 if len(reported[1][0]) else None


def set_position(iterator: Any, position: int | None) -> None:
    if position is not None and position_of(iterator) is None:
        raise ValueError("it is exhausted")
    if position is not None:
        iterator.__setstate__(position)


MISSING: Any = object()
"Stands for a value that does not exist. `put_back_host` removes a value if it is given MISSING."


class StateError(Exception):
    """Raised if a change that a step made cannot be put back. The message is one line."""


@dataclass(frozen=True, slots=True)
class Variables:
    """Some variables as one container. `of` is a module's dict, a class, or a TorchScript module."""

    of: Any
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """A location that a descriptor reads and sets: a slot of an object, or the content of a closure's cell."""

    of: Any
    descriptor: Any

    def read(self) -> Any:
        """Return the value; MISSING if there is none."""
        try:
            return self.descriptor.__get__(self.of)
        except (AttributeError, ValueError):
            return MISSING

    def put(self, value: Any) -> None:
        """Set the value. MISSING removes the value."""
        if value is not MISSING:
            self.descriptor.__set__(self.of, value)
        elif self.read() is not MISSING:
            self.descriptor.__delete__(self.of)


class _InContext:
    """Reads and sets a context variable, in the way that a descriptor reads and sets an attribute."""

    def __get__(self, variable: ContextVar[Any], kind: Any = None) -> Any:
        return variable.get(MISSING)

    def __set__(self, variable: ContextVar[Any], value: Any) -> None:
        variable.set(value)

    def __delete__(self, variable: ContextVar[Any]) -> None:
        try:
            # A context variable cannot be unset again. Setting it to its default has the same effect for readers.
            variable.set(Context().run(variable.get))
        except LookupError:
            raise ValueError("a context variable without a default cannot be unset again") from None


CELL: Any = types.CellType.cell_contents
"The descriptor of the content of a closure's cell."
CONTEXT = _InContext()
"""The descriptor of a context variable. A slot with this descriptor is the place where the current context stores the
variable."""


def referent_of(reference: Any) -> Any:
    """Return the object of a weak reference or a weak proxy; None if the object no longer exists."""
    if isinstance(reference, weakref.ReferenceType):
        return weakref.ReferenceType.__call__(reference)
    with suppress(ReferenceError, AttributeError):
        # Python has no function that returns a proxy's object, but a bound method of the proxy is bound to that object.
        return reference.__init__.__self__
    return None


def tensors_kept_by(cache: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that a `functools.lru_cache` keeps, including those in tuples, lists and dicts."""
    # The results can be reached only through the garbage collector.
    waiting = gc.get_referents(cache)
    seen: set[int] = set()
    while waiting:
        item = waiting.pop()
        if id(item) in seen or item is vars(cache):
            continue
        seen.add(id(item))
        if issubclass(type(item), torch.Tensor):
            yield item
        elif type(item) is dict:
            waiting += item.values()
        elif type(item) in (tuple, list):
            waiting += item


def contents(container: Any) -> Any:
    """Return a container's current content, to be given to `refill`."""
    kind = type(container)
    if kind is Variables:
        return {name: held_at(container.of, name) for name in container.names}
    if kind is Slot:
        return container.read()
    if kind in OVER_SEQUENCES:
        return position_of(container)
    if kind is functools._lru_cache_wrapper:
        return None
    base = _base(kind)
    if base in (dict, OrderedDict):
        return list(base.items(container))
    if base in (deque, set):
        return list(base.__iter__(container))
    if base in (list, bytearray, array):
        return base.__getitem__(container, slice(None))
    return base.copy(container)  # a numpy array


def refill(container: Any, before: Any) -> None:
    """Put back content that `contents` has read. Raises the container's own error if the container refuses."""
    kind = type(container)
    if kind is Variables:
        for name, value in before.items():
            if held_at(container.of, name) is not value:
                put_at(container.of, name, value)
    elif kind is Slot:
        container.put(before)
    elif kind in OVER_SEQUENCES:
        set_position(container, before)
    elif kind is functools._lru_cache_wrapper:
        container.cache_clear()
    else:
        _refill_base(_base(kind), container, before)


def _refill_base(base: Any, container: Any, before: Any) -> None:
    if base in (dict, OrderedDict):
        flat = itertools.chain.from_iterable
        if not _are_the_same(list(flat(base.items(container))), list(flat(before))):
            base.clear(container)
            for key, value in before:
                base.__setitem__(container, key, value)
    elif base in (deque, set):
        if not _are_the_same(list(base.__iter__(container)), before):
            base.clear(container)
            (deque.extend if base is deque else set.update)(container, before)
    elif base in (list, bytearray, array):
        base.__setitem__(container, slice(None), before)
    else:
        base.__setitem__(container, ..., before)


def _are_the_same(now: list[Any], before: list[Any]) -> bool:
    return len(now) == len(before) and all(map(operator.is_, now, before))


def _base(kind: type) -> Any:
    """Return the base class of Python or numpy that stores the elements."""
    for base in bases_of(kind):
        if base in (OrderedDict, dict, deque, set, list, bytearray, array) or (
            base.__name__ == "ndarray" and module_name(base) == "numpy"
        ):
            return base
    raise TypeError(f"{kind} is not a container")


def put_back_host(reach: ReachableState, path: str, value: Any) -> None:
    """Put back a host value where `reach` found it. MISSING removes the value. Raises StateError if the container does
    not accept the change."""
    container, key = reach.owners[path]
    if type(value) is itertools.count:
        value = count_from(count_text(value) or "")
    try:
        if issubclass(type(container), tuple):
            _put_into_tuple(reach, container, key, value)
        else:
            put_at(container, key, value)
    except StateError:
        raise
    except Exception as error:
        raise StateError(f"{path} cannot be restored: {type(error).__name__}") from error


def held_at(container: Any, key: Any) -> Any:
    """Return the current value at a container and key of `ReachableState.owners`; MISSING if there is none."""
    kind = type(container)
    if kind is Slot:
        return container.read()
    if kind is torch._C.ScriptModule:
        return container.getattr(key)
    if issubclass(kind, type):
        return namespace_of(container).get(key, MISSING)
    try:
        return _base(kind).__getitem__(container, key)
    except (KeyError, IndexError):
        return MISSING


def put_at(container: Any, key: Any, value: Any) -> None:
    """Store a value where `held_at` reads it, except in tuples. Raises the container's error if it refuses."""
    kind = type(container)
    if kind is Slot:
        container.put(value)
    elif kind is torch._C.ScriptModule:
        container.setattr(key, value)
    elif issubclass(kind, type):
        if value is not MISSING:
            type.__setattr__(container, key, value)
        elif key in namespace_of(container):
            type.__delattr__(container, key)
    else:
        base = _base(kind)
        if value is not MISSING:
            base.__setitem__(container, key, value)
        elif base not in (dict, OrderedDict):
            raise StateError("an element of a list cannot be taken out alone")
        elif base.__contains__(container, key):
            base.__delitem__(container, key)


def _put_into_tuple(reach: ReachableState, container: Any, key: int, value: Any) -> None:
    """Replace a tuple by a new tuple that has this element."""
    where = next(path for path, held in reach.tuples.items() if held is container)
    items = list(tuple.__iter__(container))
    items[key] = value
    made = tuple.__new__(type(container), items)
    put_back_host(reach, where, made)
    reach.tuples[where] = made
    for path, (owner, index) in reach.owners.items():
        if owner is container:
            reach.owners[path] = (made, index)
