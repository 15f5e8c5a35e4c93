"""Lets host clocks run ahead, for code that decides by the time.

The functions are replaced wherever the user's code refers to them: in the module `time`, in variables of modules and
classes, and in attributes (`from time import monotonic`, `self.clock = time.time`). A reference inside a tuple (a
default argument) keeps the true clock.
"""

from __future__ import annotations

import datetime
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

A_DAY = 90_061.0
"Seconds to run ahead: a day, an hour, a minute and a second, so that the time of day changes too."
_SECONDS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


@contextmanager
def clocks_ahead(seconds: float) -> Iterator[None]:
    """Let the clocks of `time` and `datetime` run `seconds` ahead inside."""
    replaced: list[tuple[dict[Any, Any], Any, Any]] = []
    gc.unfreeze()  # also search objects that were frozen before the fork
    for original, shifted in _shifted(seconds):
        for holder in gc.get_referrers(original):
            names = holder if type(holder) is dict else getattr(holder, "__dict__", None)
            if type(names) is not dict:
                continue
            for name, value in list(names.items()):
                if value is original and isinstance(name, str):
                    names[name] = shifted
                    replaced.append((names, name, original))
    before = datetime.datetime
    later = _datetime_ahead(seconds)
    for holder in gc.get_referrers(before):
        if type(holder) is dict and "__name__" in holder and "__spec__" in holder:
            for name, value in list(holder.items()):
                if value is before:
                    holder[name] = later
                    replaced.append((holder, name, before))
    try:
        yield
    finally:
        for names, name, original in reversed(replaced):
            names[name] = original


def _shifted(seconds: float) -> list[tuple[Callable[[], Any], Callable[[], Any]]]:
    nanoseconds = int(seconds * 1_000_000_000)
    pairs: list[tuple[Callable[[], Any], Callable[[], Any]]] = []
    for name in _SECONDS:
        pairs.append((getattr(time, name), _Clock(getattr(time, name), seconds)))
        pairs.append((getattr(time, f"{name}_ns"), _Clock(getattr(time, f"{name}_ns"), nanoseconds)))
    return pairs


class _Clock:
    """A clock that runs ahead. It is not a function, because a function in a class variable would become a method."""

    def __init__(self, original: Callable[[], Any], ahead: float) -> None:
        self._read = (original,)  # inside a tuple, so that it is not replaced itself
        self._ahead = ahead

    def __call__(self) -> Any:
        return self._read[0]() + self._ahead


def _datetime_ahead(seconds: float) -> type[datetime.datetime]:
    ahead = datetime.timedelta(seconds=seconds)
    true = (datetime.datetime,)

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, true[0])

    class Later(datetime.datetime, metaclass=Kind):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return true[0].now(tz) + ahead

        @classmethod
        def utcnow(cls) -> Any:
            return true[0].utcnow() + ahead

        @classmethod
        def today(cls) -> Any:
            return true[0].today() + ahead

    return Later
