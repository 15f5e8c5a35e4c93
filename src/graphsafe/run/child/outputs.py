"""Finds the line that keeps earlier results of a graph, although every replay overwrites them.

An example is `self.chunks.append(logits)`. A statement is reported if its container holds the results at the moment of
a replay. It must be in a function that led to the replay, or in a method of an object in a variable of such a function.
A running expression that is building such a container, as in `[run(x) for x in batches]`, is reported too.
"""

from __future__ import annotations

import ast
import functools
import gc
import sys
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import torch

from graphsafe.capture.shared.frames import call_site, frames_from, position_in
from graphsafe.report.model import CallSite, Span
from graphsafe.run.child.frozen.lines import line_with
from graphsafe.run.child.frozen.origins import Origin, Scope, running_in
from graphsafe.run.child.names import elements_of, locals_of, methods_of, storage_number, storage_numbers
from graphsafe.run.child.source import (
    base_of,
    called_name,
    file_tree,
    innermost,
    lines_of,
    running_call,
    tree_of_code,
    unchanged,
)

PUTS = frozenset({"append", "appendleft", "add", "insert", "extend", "setdefault", "update", "put"})
_MOST_ITEMS = 64
"Only the last elements of a container are searched, at most this many."
_DEEPEST = 3
_ENOUGH_TIMES = 2
"A container must hold the same results this many times. A table of all graphs' outputs holds each of them once."


def _lines_of_methods(frames: Sequence[FrameType], keeps: Callable[[Any], bool]) -> Iterator[CallSite]:
    """Yield the statements of methods that put values into a container of their object, if `keeps` returns True for the
    container."""
    for value in [value for frame in frames for value in locals_of(frame).values()]:
        for method in methods_of(value):
            code = method.__code__
            lines = lines_of(code)
            own = {name: Origin.of(value) for name in code.co_varnames[:1]}
            scope = Scope(own, {}, method.__globals__, code.co_filename)
            for container, line in _stores(code.co_filename):
                if line in lines and keeps(scope.origin(container).value):
                    yield call_site(code, line)


@functools.lru_cache(maxsize=64)
def _stores(path: str) -> tuple[tuple[ast.expr, int], ...]:
    """Return the containers into which the statements of a file put values, as expressions with their lines."""
    return tuple((each, node.lineno) for node in ast.walk(file_tree(path)) for each, _ in puts_of(node))  # type: ignore[attr-defined]


def puts_of(node: ast.AST) -> Iterator[tuple[ast.expr, Sequence[ast.expr]]]:
    """Yield each container into which a statement puts values, and these values."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PUTS:
        yield base_of(node.func.value), node.args[-1:]
    elif isinstance(node, ast.Assign):
        yield from ((base_of(target), [node.value]) for target in node.targets if isinstance(target, ast.Subscript))
    elif isinstance(node, ast.AugAssign):
        yield base_of(node.target), [node.value]


def _held(value: Any, storages: frozenset[int], depth: int = 0) -> int:
    """Count the tensors of these storages in a container and in the containers inside it."""
    if issubclass(type(value), torch.Tensor):
        return int(depth > 0 and storage_number(value) in storages)
    return _count(reversed(elements_of(value)), storages, depth + 1) if depth < _DEEPEST else 0


def _count(items: Iterable[Any], storages: frozenset[int], depth: int = 1) -> int:
    return sum(_held(item, storages, depth) for item in islice(items, _MOST_ITEMS))


_KINDS = (list, tuple, set, dict, deque)
_BUILDERS = frozenset(kind.__name__ for kind in _KINDS)
_DEEPEST_BUILT = 2
"Results may be elements of the container itself, or of tuples and lists in it."


def building_line(
    frames: Sequence[FrameType], storages: frozenset[int], keep: Callable[[Iterable[Any]], bool]
) -> CallSite | None:
    """Return the innermost line of the running functions that is building a container of results.

    Only the interpreter holds such a container: no variable does, nor an object that the garbage collector knows. The
    container must hold tensors of these storages, and `keep` must return True for its elements.
    """
    line = next((line for frame in frames if (line := _building(frame)) is not None), None)
    return line if line is not None and _is_unnamed_one(storages, keep) else None


def _building(frame: FrameType) -> CallSite | None:
    """If a comprehension in this frame is running, and the running call makes its elements, return the comprehension's
    line.

    A running call that builds a container, such as `list(map(run, batches))`, counts too.
    """
    code, place = frame.f_code, position_in(frame.f_code, frame.f_lasti)
    if place is None:
        return None
    call = running_call(code.co_filename, place)
    around = innermost(code.co_filename, place[0], ast.ListComp, ast.SetComp, ast.DictComp)
    element = () if around is None else unchanged(around.value if isinstance(around, ast.DictComp) else around.elt)
    builds = call is not None and (call in element or called_name(call.func) in _BUILDERS)
    return call_site(code, place[0]) if builds else None


def _is_unnamed_one(storages: frozenset[int], keep: Callable[[Iterable[Any]], bool]) -> bool:
    named = {id(value) for frame in frames_from(sys._getframe(1)) for value in locals_of(frame).values()}
    # A list would be copied to a tuple in the call `get_referrers(*inside)`, and the call would find this second
    # container as a referrer.
    inside: tuple[Any, ...] = tuple(
        one for one in gc.get_objects() if issubclass(type(one), torch.Tensor) and storage_number(one) in storages
    )
    for _ in range(_DEEPEST_BUILT):
        inside = tuple(one for one in gc.get_referrers(*inside) if type(one) in _KINDS and one is not inside)
        for one in inside:
            # A tuple that is being built has gaps. Iterating over them would crash, but the garbage collector skips
            # them.
            if id(one) not in named and keep(gc.get_referents(one)):
                others = (other for other in gc.get_referrers(one) if other is not inside)
                if all(isinstance(other, FrameType) for other in others):
                    return True
    return False


_MOST = 8
"At most this many outputs of a graph are watched."
_ENOUGH = 3
"""Results count as collected if the number of references grows at this many replays after the first one.

A program that only keeps the latest result in a few variables does not reach this number.
"""
_ENOUGH_IN_CONTAINER = 2
"This many replays are enough if a container is known to hold the same results twice."


class Outputs:
    def __init__(self, tensors: Sequence[torch.Tensor] = ()) -> None:
        self._tensors = [weakref.ref(tensor) for tensor in tensors[:_MOST]]
        self._before: int | None = None
        self._held = 0
        self._grown = 0

    def look(self, frames: Sequence[FrameType]) -> CallSite | bool:
        """Count the references to the outputs, at a replay in `frames`.

        If the line that collects results is known, return it. Otherwise return whether the program collects results.
        """
        if not self._tensors:
            return False
        held = self.holders()
        if self._before is None:
            self._before = self._held = held
        elif held > self._held:
            self._held = held
            self._grown += 1
        elif held < self._held:
            self._held, self._grown = held, 0
        more = min(self._grown, held - self._before)
        if more < _ENOUGH_IN_CONTAINER:
            return False
        tensors = (tensor for reference in self._tensors if (tensor := reference()) is not None)
        storages = storage_numbers(tensors)

        def keeps(container: Any) -> bool:
            return _held(container, storages) >= _ENOUGH_TIMES

        line = line_with(frames, _stores, keeps) or next(_lines_of_methods(frames, keeps), None)
        if line is None and more >= _ENOUGH:  # this search goes through all objects
            line = building_line(frames, storages, lambda items: _count(items, storages) >= _ENOUGH_TIMES)
        return line or more >= _ENOUGH

    def is_held_by_more(self) -> bool:
        """Return whether more references to the outputs exist than at the first look."""
        return self._before is not None and self.holders() > self._before

    def holders(self) -> int:
        """Return the number of references to the output tensors, plus the number of tensors that share their memory."""
        sharers: Callable[[int], int] = getattr(torch._C, "_storage_Use_Count", lambda _: 0)
        found = 0
        for reference in self._tensors:
            tensor = reference()
            if tensor is not None:
                found += sys.getrefcount(tensor) + int(sharers(tensor.untyped_storage()._cdata))
        return found


_ENOUGH_OUTSIDE = 3
"A container must hold the same memory this many times."
_ENOUGH_OUTSIDE_BUILT = 2
"In a container that is being built, this many times are enough, because such a container holds only results."
_SEARCHED = frozenset({4, 8, 16, 32, 64})
"All objects are searched for such a container only at the checks with these numbers."


def returned_and_kept(storages: frozenset[int], frames: Sequence[FrameType], look: int) -> CallSite | None:
    """Return the line at which a running function keeps results whose memory is in these storages.

    The storages are outside the graph's pool, and each replay updates them. An example is `images.append(run(x))`,
    where `run` returns the buffer that the graph updates in place. A program may also hold such memory on purpose: a
    queue of requests may refer to one cache many times. So a result is reported only if a statement or a comprehension
    keeps exactly the return value of a call that led to the replay. The same elements of the memory must also be kept
    several times, because different rows of one buffer are different results. `look` is the number of this check.
    """
    for frame in frames:
        code = frame.f_code
        puts = _puts(code, position_in(code, frame.f_lasti))
        scope = running_in(frame) if puts else None
        for container, line, is_in_tuple in puts:
            value = None if scope is None else scope.origin(container).value
            if _repeated(reversed(elements_of(value)), storages, is_in_tuple) >= _ENOUGH_OUTSIDE:
                return call_site(code, line)
    if look not in _SEARCHED:
        return None
    return building_line(frames, storages, lambda items: _repeated(items, storages, False) >= _ENOUGH_OUTSIDE_BUILT)


@functools.lru_cache(maxsize=1024)
def _puts(code: CodeType, place: Span | None) -> tuple[tuple[ast.expr, int, bool], ...]:
    """Return one entry for each statement that adds the result of one call, and nothing else, to a container.

    A function makes this call at `place`. The entry is the container's expression, the line that adds the value, and
    whether the added value is a tuple or a list.
    """
    tree, call = tree_of_code(code), None if place is None else running_call(code.co_filename, place)
    if tree is None or call is None:
        return ()
    lines = lines_of(code)
    nodes = [one for one in ast.walk(tree) if getattr(one, "lineno", None) in lines]
    targets = [one.targets for one in nodes if isinstance(one, ast.Assign) and call in unchanged(one.value)]
    stored = [name for target in targets for part in target for name in ast.walk(part) if isinstance(name, ast.Name)]
    names = {name.id for name in stored if isinstance(name.ctx, ast.Store)}
    return tuple(
        (container, node.lineno, isinstance(values[0], (ast.Tuple, ast.List)))  # type: ignore[attr-defined]
        for node in nodes
        for container, values in puts_of(node)
        if values and all(one is call or (isinstance(one, ast.Name) and one.id in names) for one in _parts(values[0]))
    )


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Tuple, ast.List)):
        yield from (part for one in node.elts for part in _parts(one))
    else:
        yield base_of(node)


def _repeated(items: Iterable[Any], storages: frozenset[int], is_deep: bool) -> int:
    """Return how many times the elements, or containers in them, hold the same part of one of these storages."""
    found: Counter[Any] = Counter()
    for item in islice(items, _MOST_ITEMS):
        for one in (item, *elements_of(item)) if is_deep else (item,):
            tensor = _tensor_of(one)
            if tensor is not None and (number := storage_number(tensor)) in storages:
                # A NumPy array may show another part of the memory than its tensor.
                part = (tensor.storage_offset(), tensor.shape, tensor.stride()) if one is tensor else _array_part(one)
                found[number, part] += 1
    return max(found.values(), default=0)


def _tensor_of(value: Any) -> torch.Tensor | None:
    """Return a tensor, or the tensor whose memory a NumPy array shows: `pinned.numpy()[:8]`."""
    while type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        value = value.base
    return value if issubclass(type(value), torch.Tensor) else None


def _array_part(array: Any) -> tuple[Any, ...]:
    return array.__array_interface__["data"], array.shape, array.strides
