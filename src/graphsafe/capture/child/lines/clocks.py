"""Sets the host's clocks ahead, to test code that depends on the time.

The functions are replaced wherever the user's code refers to them: in the module `time`, in variables of modules and
classes and in attributes (`from time import monotonic`, `self.clock = time.time`), in closures and in default
arguments. A reference inside another tuple still gets the true clock.
"""

from __future__ import annotations

import datetime
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import CellType, FunctionType
from typing import Any

A_DAY = 90_061.0
"Seconds by which clocks are set ahead: a day, an hour, a minute and a second, to change the time of day too."
_SECONDS = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
_CALENDARS = ("localtime", "gmtime", "ctime")
"Functions that turn a number of seconds into another form. Without an argument, they use the current time."


@contextmanager
def clocks_ahead(seconds: float) -> Iterator[None]:
    """Set the clocks of `time` and `datetime` ahead in this block. Pending timers fire before the block runs."""
    put_back: list[Callable[[], object]] = []
    replacements = _functions_ahead(seconds)
    ahead: dict[int, Any] = {id(original): new for original, new in replacements}
    dates = _dates_ahead(seconds)
    gc.unfreeze()  # the search below then also finds objects that were frozen before the fork
    # Search for all clocks at once, because each search visits every live object. A second search finds functions with
    # default arguments.
    holders = gc.get_referrers(*(original for original, _ in replacements), *_date_classes())
    tuples = [holder for holder in holders if type(holder) is tuple]
    for function in gc.get_referrers(*tuples):
        defaults = function.__defaults__ if type(function) is FunctionType else None
        if defaults is not None:
            put_back.append(partial(setattr, function, "__defaults__", defaults))
            function.__defaults__ = tuple(ahead.get(id(value), value) for value in defaults)
    for holder in holders:
        if type(holder) is CellType and id(holder.cell_contents) in ahead:
            put_back.append(partial(setattr, holder, "cell_contents", holder.cell_contents))
            holder.cell_contents = ahead[id(holder.cell_contents)]
        names = holder if type(holder) is dict else getattr(holder, "__dict__", None)
        if type(names) is not dict:
            continue
        is_module = names is holder and "__name__" in names and "__spec__" in names
        for name, value in list(names.items()):
            new = ahead.get(id(value)) if isinstance(name, str) else None
            if is_module:
                new = dates.get(id(value), new)
            if new is not None:
                names[name] = new
                put_back.append(partial(names.__setitem__, name, value))
    _end_timers()
    try:
        yield
    finally:
        for undo in reversed(put_back):
            undo()


def _end_timers() -> None:
    """Call the functions of the user's pending timers, which would have fired by the new time."""
    for timer in threading.enumerate():
        if isinstance(timer, threading.Timer):
            timer.cancel()
            with suppress(Exception):  # in the program, such an error would only have ended the timer's thread
                timer.function(*timer.args, **timer.kwargs)


def _date_classes() -> tuple[type, ...]:
    numpy: Any = sys.modules.get("numpy")
    return (datetime.datetime, datetime.date, *([] if numpy is None else [numpy.datetime64]))


class _Ahead:
    """A function that is set ahead: an object, because Python turns a function in a class variable into a method."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *given: Any) -> Any:
        return self._call(*given)


def _functions_ahead(seconds: float) -> list[tuple[Any, _Ahead]]:
    """Return the functions that depend on the time, each with its replacement."""
    true = (time.time, time.localtime, time.strftime)  # a reference inside a tuple is not replaced

    def clock(original: Any) -> _Ahead:
        read, ahead = (original,), int(seconds * 1_000_000_000) if original.__name__.endswith("_ns") else seconds
        return _Ahead(lambda *which: read[0](*which) + ahead)

    def calendar(original: Any) -> _Ahead:
        form = (original,)
        return _Ahead(lambda at=None: form[0](true[0]() + seconds if at is None else at))

    def usage(original: Any) -> _Ahead:
        read = (original,)

        def with_later_times(*arguments: Any) -> Any:
            now = read[0](*arguments)
            return type(now)([part + seconds if isinstance(part, float) else part for part in now])

        return _Ahead(with_later_times)

    text = _Ahead(lambda form, parts=None: true[2](form, true[1](true[0]() + seconds) if parts is None else parts))
    clocks = [getattr(time, f"{name}{unit}") for name in _SECONDS for unit in ("", "_ns") if hasattr(time, name)]
    calendars = [getattr(time, name) for name in _CALENDARS]
    resource: Any = sys.modules.get("resource")  # not all systems have it
    usages = [os.times, *([] if resource is None else [resource.getrusage])]
    found = [(one, clock(one)) for one in clocks] + [(one, calendar(one)) for one in calendars]
    return [*found, *((one, usage(one)) for one in usages), (time.strftime, text)]


_TIME = (datetime.datetime,)
"The true class. A reference inside a tuple is not replaced."


class _OfBase(type):
    """A metaclass. For its classes, `isinstance` is true for every instance of their base class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__base__ or object)


def _dates_ahead(seconds: float) -> dict[int, type]:
    """Return the replacements of the date classes, by the id of the original class."""
    ahead = datetime.timedelta(seconds=seconds)

    class LaterTime(datetime.datetime, metaclass=_OfBase):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return _TIME[0].now(tz) + ahead

        @classmethod
        def utcnow(cls) -> Any:
            return _TIME[0].utcnow() + ahead

        @classmethod
        def today(cls) -> Any:
            return _TIME[0].today() + ahead

    class LaterDate(datetime.date, metaclass=_OfBase):
        @classmethod
        def today(cls) -> Any:
            return (_TIME[0].today() + ahead).date()

    later = (LaterTime, LaterDate, *(_numpy_times_ahead(one, seconds) for one in _date_classes()[2:]))
    return {id(original): new for original, new in zip(_date_classes(), later, strict=True)}


def _numpy_times_ahead(original: Any, seconds: float) -> type:
    ahead = sys.modules["numpy"].timedelta64(int(seconds), "s")

    class OfOriginal(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original)

    class LaterStamp(metaclass=OfOriginal):
        def __new__(cls, *given: Any) -> Any:
            stamp = original(*given)
            return stamp + ahead if given and given[0] in ("now", "today") else stamp

    return LaterStamp
