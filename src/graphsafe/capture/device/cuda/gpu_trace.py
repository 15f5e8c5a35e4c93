"""PyTorch's GPU trace. The trace calls back before each wait and each allocation, while the Python stack is still that
of the user's line.

The trace also calls back when memory is freed. This happens while an exception propagates too, when Python drops the
temporary tensors of the failing expression. If the callback runs at this time, the exception becomes a SystemError. If
the same function handles the exception, the process even crashes (torch 2.11, Python 3.12, H100). So the trace pauses
while an exception propagates. Python reports exceptions from 3.12 on, except those that operators such as `+` and `[]`
raise.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import torch
from torch.cuda import _gpu_trace

from graphsafe.capture.shared.monitoring import Monitor, disable

_FLAG = "_ZN3c104impl8GPUTrace9haveStateE"
"`c10::impl::GPUTrace::haveState`, which PyTorch reads before each callback (torch 2.6 to 2.13)."

_lock = threading.Lock()
_users = 0
_was_on = False
"Whether the program itself had turned on the trace, as PyTorch's sanitizer does."
_pause: Monitor | None = None


def register(**callbacks: Callable[..., None]) -> None:
    """Register a callback for each kind of event, such as `stream_synchronization`. PyTorch cannot unregister a
    callback."""
    for name, call in callbacks.items():
        getattr(_gpu_trace, f"register_callback_for_{name}")(call)


@contextmanager
def traced() -> Iterator[None]:
    """Keep the trace on in this block. Blocks may be nested or run in parallel; the trace is switched off after the
    last block."""
    global _users, _was_on, _pause
    flag = _flag()
    with _lock:
        _users += 1
        if _users == 1:
            _was_on = flag.value
            torch._C._activate_gpu_trace()
            flag.value = True
            _pause = _paused_by_exceptions(flag)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _stop()


@atexit.register
def _stop() -> None:
    if _pause is not None:
        _pause.close()
        _flag().value = _was_on


def _flag() -> ctypes.c_bool:
    """Return PyTorch's flag. If this version of PyTorch has no such flag, return a flag that is never read; the trace
    then cannot pause."""
    library = Path(torch.__file__).parent / "lib" / "libc10.so"
    try:
        return ctypes.c_bool.in_dll(ctypes.CDLL(str(library)), _FLAG)
    except (OSError, ValueError):
        return ctypes.c_bool()


def _paused_by_exceptions(flag: ctypes.c_bool) -> Monitor:
    def pause(*_: Any) -> None:
        flag.value = False

    def resume(*_: Any) -> None:
        flag.value = True

    def called(_code: Any, _offset: int, callee: Any, _first: Any) -> Any:
        # Only calls of compiled code can drop their arguments before Python reports an exception.
        if issubclass(type(callee), (FunctionType, MethodType, type)) or _is_builtin(callee):
            return disable()
        flag.value = True  # if compiled code has handled an exception, Python does not report that
        return None

    heard = {"CALL": called, "C_RAISE": pause, "RAISE": pause, "RERAISE": pause, "EXCEPTION_HANDLED": resume}
    monitor = Monitor(heard)
    monitor.hear("CALL", "RAISE", "RERAISE", "EXCEPTION_HANDLED")
    return monitor


def _is_builtin(callee: Any) -> bool:
    """Return whether a function, or the class of a method, is in Python's own `builtins`."""
    module = getattr(callee, "__module__", None)
    if module is None:
        held = getattr(callee, "__self__", None)
        owner = getattr(callee, "__objclass__", held if isinstance(held, type) else type(held))
        module = getattr(owner, "__module__", None)
    return bool(module == "builtins")
