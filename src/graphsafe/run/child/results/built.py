"""Finds the running expression that is building a container of results: `[run(x) for x in batches]`.

No variable holds such a container yet, nor does an object that the garbage collector knows. Only the interpreter holds
it.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

import torch

from graphsafe.capture.shared.frames import call_site, frames_from, position_in
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import locals_of, storage_number
from graphsafe.run.child.source import called_name, innermost, running_call, unchanged

_KINDS = (list, tuple, set, dict, deque)
_BUILDERS = frozenset(kind.__name__ for kind in _KINDS)
_DEEPEST = 2
"Results may be elements of the container itself, or of tuples and lists in it."


def building_line(
    frames: Sequence[FrameType], storages: frozenset[int], keep: Callable[[Iterable[Any]], bool]
) -> CallSite | None:
    """Return the innermost line of the running functions that is building a container of results.

    The container must hold tensors of these storages, must not be in a variable, and `keep` must return True for its
    elements. Call it with torch functions disabled.
    """
    line = next((line for frame in frames if (line := _building(frame)) is not None), None)
    return line if line is not None and _is_unnamed_one(storages, keep) else None


def _building(frame: FrameType) -> CallSite | None:
    """Return the line of a running comprehension that keeps the results of the running call.

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
    for _ in range(_DEEPEST):
        inside = tuple(one for one in gc.get_referrers(*inside) if type(one) in _KINDS and one is not inside)
        for one in inside:
            # A tuple that is being built has gaps. Iterating over them would crash, but the garbage collector skips
            # them.
            if id(one) not in named and keep(gc.get_referents(one)):
                others = (other for other in gc.get_referrers(one) if other is not inside)
                if all(isinstance(other, FrameType) for other in others):
                    return True
    return False
