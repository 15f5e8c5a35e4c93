"""Finds calls in a step that return a different value each time: calls of host clocks and of sources of random numbers.

A profile function receives the called C function itself, so the name under which the user imported it does not matter.
Python does not report NumPy's functions to a profile function, so the functions of `numpy.random` are wrapped. The
calls explain a finding; `probes/twin.py` decides whether their results reach the graph.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any, Literal

from graphsafe.capture.answers.probes import HostCall
from graphsafe.capture.shared.frames import user_frames
from graphsafe.capture.shared.replaced import replaced

_CLOCKS = frozenset(
    [f"time.{name}{unit}" for name in ("time", "monotonic", "perf_counter", "process_time") for unit in ("", "_ns")]
    + ["time.thread_time", "time.clock_gettime", "time.localtime", "time.gmtime"]
    + ["datetime.now", "datetime.utcnow", "datetime.today", "date.today"]
)
_NUMPY_DRAWS = (
    "rand randn randint random random_sample uniform normal standard_normal choice permutation shuffle "
    "binomial poisson beta gamma exponential"
).split()
_ENTROPY = frozenset({"posix.urandom", "nt.urandom", "posix.getrandom"})
_LAST_NAMES = frozenset(name.rpartition(".")[2] for name in _CLOCKS | _ENTROPY)


@contextmanager
def host_calls_watched(sink: Callable[[HostCall], None]) -> Iterator[None]:
    def watch(frame: FrameType, event: str, function: Any) -> None:
        if event != "c_call":
            return
        kind = _kind(function)
        if kind is not None:
            frames, span = user_frames(frame)
            if frames:
                sink(HostCall(kind, _name(function), frames, span))

    before = sys.getprofile()
    with _numpy_wrapped(sink):
        sys.setprofile(watch)
        threading.setprofile(watch)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(None)


def _numpy_wrapped(sink: Callable[[HostCall], None]) -> AbstractContextManager[None]:
    module: Any = sys.modules.get("numpy.random")

    def watched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*args: Any, **kwargs: Any) -> Any:
            frames, span = user_frames()
            if frames:
                sink(HostCall("random", f"numpy.random.{name}", frames, span))
            return original(*args, **kwargs)

        return draw

    draws = {name: getattr(module, name) for name in _NUMPY_DRAWS if hasattr(module, name)}
    return replaced(*((module, name, watched(name, original)) for name, original in draws.items()))


def _kind(function: Any) -> Literal["clock", "random"] | None:
    # Only a builtin's `__self__` is read, because reading attributes of the user's objects could run their code.
    owner = getattr(function, "__self__", None)
    if isinstance(owner, random.Random) or type(owner).__module__.startswith("numpy.random"):
        return "random" if function.__name__ not in ("seed", "getstate", "setstate") else None
    if function.__name__ not in _LAST_NAMES:  # most calls return here
        return None
    name = _name(function)
    return "clock" if name in _CLOCKS else "random" if name in _ENTROPY else None


def _name(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type):
        return f"{owner.__name__}.{function.__name__}"
    module = getattr(function, "__module__", None) or type(owner).__module__
    return f"{module}.{function.__name__}"
