"""Finds kept results whose memory is outside the graph's pool and is updated by each replay.

An example is `images.append(run(x))`, where `run` returns the buffer that the graph updates in place. A program may
also hold such memory on purpose: a queue of requests may refer to one cache many times. So a result is reported only if
a statement or a comprehension keeps exactly the return value of a call that led to the replay. The same elements of the
memory must also be kept several times, because different rows of one buffer are different results.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import torch

from graphsafe.capture.shared.frames import call_site, position_in
from graphsafe.report.model import CallSite, Span
from graphsafe.run.child.frozen.origins import running_in
from graphsafe.run.child.names import elements_of, storage_number
from graphsafe.run.child.outputs import building_line, puts_of
from graphsafe.run.child.source import base_of, lines_of, running_call, tree_of_code, unchanged

_ENOUGH = 3
"A container must hold the same memory this many times."
_ENOUGH_BUILT = 2
"In a container that is being built, this many times are enough, because such a container holds only results."
_SEARCHED = frozenset({4, 8, 16, 32, 64})
"All objects are searched for such a container only at the checks with these numbers."
_MOST_ITEMS = 64


def returned_and_kept(storages: frozenset[int], frames: Sequence[FrameType], look: int) -> CallSite | None:
    """Return the line at which a running function keeps results whose memory is in these storages.

    `look` is the number of this check.
    """
    for frame in frames:
        code = frame.f_code
        puts = _puts(code, position_in(code, frame.f_lasti))
        scope = running_in(frame) if puts else None
        for container, line, is_in_tuple in puts:
            value = None if scope is None else scope.origin(container).value
            if _repeated(reversed(elements_of(value)), storages, is_in_tuple) >= _ENOUGH:
                return call_site(code, line)
    if look not in _SEARCHED:
        return None
    return building_line(frames, storages, lambda items: _repeated(items, storages, False) >= _ENOUGH_BUILT)


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
