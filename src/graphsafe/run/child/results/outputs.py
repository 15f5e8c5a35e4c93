"""Finds the line that keeps earlier results of a graph, although every replay overwrites them.

An example is `self.chunks.append(logits)`. A statement is reported if its container holds the results at the moment of
a replay. It must be in a function that led to the replay, or in a method of an object that such a function has in a
variable.
"""

from __future__ import annotations

import ast
import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from types import FrameType
from typing import Any

import torch

from graphsafe.capture.shared.frames import call_site, user_frames, user_frames_now
from graphsafe.report.model import CallSite
from graphsafe.run.child.frozen.lines import line_with
from graphsafe.run.child.frozen.origins import Origin, Scope
from graphsafe.run.child.names import elements_of, locals_of, methods_of, storage_number, storage_numbers
from graphsafe.run.child.results.built import building_line
from graphsafe.run.child.source import base_of, file_tree, lines_of
from graphsafe.run.facts import HeldOutputs

PUTS = frozenset({"append", "appendleft", "add", "insert", "extend", "setdefault", "update", "put"})
_MOST_ITEMS = 64
"The search looks at this many of the last elements of a container."
_DEEPEST = 3
_ENOUGH_TIMES = 2
"A container must hold the same results this many times. A table of all graphs' outputs holds each of them once."


def keeping_line(storages: frozenset[int], frames: Sequence[FrameType]) -> CallSite | None:
    """Return the statement that repeatedly puts tensors of these storages into a container.

    It is a statement of one of the running functions, or of a method of an object that they have in a variable. Call it
    with torch functions disabled.
    """

    def keeps(container: Any) -> bool:
        return _held(container, storages) >= _ENOUGH_TIMES

    return line_with(frames, _stores, keeps) or next(_lines_of_methods(frames, keeps), None)


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
        self.held = HeldOutputs()

    def look(self) -> bool:
        """Count the references to the outputs, with torch functions disabled.

        Return whether this call is the first that finds the program collecting results.
        """
        if self.held.collected or not self._tensors:
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
        storages, frames = storage_numbers(tensors), user_frames_now(sys._getframe(1))
        line = keeping_line(storages, frames)
        if line is None and more >= _ENOUGH:  # this search goes through all objects
            line = building_line(frames, storages, lambda items: _count(items, storages) >= _ENOUGH_TIMES)
        if line is not None:
            self.held.collected = (line,)
        elif more >= _ENOUGH:
            self.held.collected, self.held.is_keeper_known = user_frames()[0], False
        return bool(self.held.collected)

    def is_held_by_more(self) -> bool:
        """Return whether more references to the outputs exist than at the first look."""
        return self._before is not None and self.holders() > self._before

    def holders(self) -> int:
        """Return the number of references to the output tensors, plus the number of tensors that share their memory."""
        found = 0
        for reference in self._tensors:
            tensor = reference()
            if tensor is not None:
                found += sys.getrefcount(tensor) + _sharers(tensor)
        return found


def _sharers(tensor: torch.Tensor) -> int:
    count: Any = getattr(torch._C, "_storage_Use_Count", None)
    return 0 if count is None else int(count(tensor.untyped_storage()._cdata))
