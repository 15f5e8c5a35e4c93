"""The functions of vLLM's module of the same name, built on `graphsafe.forbid`. Only the import has to be changed.

Unlike in vLLM, a checked call first runs to its end. Then all faulty lines are reported, each with its rule and a
repair. The error is `graphsafe.Forbidden`. Waits that happen on autograd's threads are reported too. As in vLLM,
VLLM_GPU_SYNC_CHECK (`warn` or `error`) is read only once, and nothing is checked before `enable_gpu_sync_check()` is
called.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import ParamSpec, TypeVar

import torch

from graphsafe.guard.findings import Forbidden
from graphsafe.guard.regions import allow, forbid, is_watched

_P = ParamSpec("_P")
_R = TypeVar("_R")

_MODE = os.environ.get("VLLM_GPU_SYNC_CHECK") or None
_VANISHED = nullcontext()
_seen: set[tuple[str, int]] = set()
_enabled = False


def enable_gpu_sync_check() -> None:
    """Begin to check calls. Call this function in a worker after the warm-up."""
    global _enabled
    _enabled = True


def gpu_sync_allowed(first_only: bool = False) -> AbstractContextManager[None]:
    """Exempt a block from the check around it, and from `graphsafe.forbid`.

    With `first_only`, only the first entry from a call site is exempt.
    """
    if torch.compiler.is_compiling():
        return _VANISHED
    if first_only:
        caller = sys._getframe(1)
        place = (caller.f_code.co_filename, caller.f_lineno)
        if place in _seen:
            return _VANISHED
        _seen.add(place)
    return allow("gpu_sync_allowed()")


def with_gpu_sync_check(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function whose calls are checked on the thread that makes the call. A call inside a checked call counts
    as part of the outer call.

    In the mode `error`, a call raises Forbidden when it ends.
    """
    if _MODE is None:
        return function

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not _enabled or torch.compiler.is_compiling() or is_watched():
            return function(*args, **kwargs)
        results: list[_R] = []
        try:
            with forbid():
                results.append(function(*args, **kwargs))
        except Forbidden as error:
            if _MODE == "error" or not results:
                raise
            warnings.warn(str(error), stacklevel=2)
        return results[0]

    return checked
