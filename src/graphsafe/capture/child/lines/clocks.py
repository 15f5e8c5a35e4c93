"""Sets the host's clocks ahead, to test code that depends on the time.

The functions are replaced wherever the user's code refers to them: in the module `time`, in variables of modules and
classes, in attributes and slots (`from time import monotonic`, `self.clock = time.time`), in closures, in default
arguments and in `functools.partial`. Methods of dates that the code has stored (`self.now = datetime.now`) are replaced
too. A reference inside a list, or inside a tuple that does not hold default arguments, still gets the true clock.
"""

from __future__ import annotations

import datetime
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType
from typing import Any

from graphsafe.capture.child.lines.waits import end_long_waits
from graphsafe.capture.child.state.objects import layout_of

A_DAY = 90_061.0
"Seconds by which clocks are set ahead: a day, an hour, a minute and a second, to change the time of day too."
_PART, _PARTS, _STRIDE = 973_894.07, 33, 29
LATER = tuple(round(at * _STRIDE % _PARTS * _PART, 2) for at in range(1, _PARTS))
"""Further numbers of seconds by which clocks are set ahead, up to a year. For every usual period, from a tenth of a
second to a year, the numbers fall at points all over the period. The order is chosen so that this also holds for the
first ten numbers alone: slow steps have time only for those ten."""
_SECONDS = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
_CALENDARS = ("localtime", "gmtime", "ctime")
"Functions that turn a number of seconds into another form. Without an argument, these functions use the current time."


class Shift:
    """The number of seconds by which clocks are ahead. The number may change while the clocks are ahead."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._true = (time.process_time, time.monotonic)  # a reference inside a tuple is not replaced
        self._begun = self._now()

    def _now(self) -> tuple[float, float]:
        worked, total = self._true
        return worked(), total()

    def is_over(self, cpu_seconds: float, seconds: float) -> bool:
        """Return whether this much real CPU time, or real time, has passed since the clocks were set ahead."""
        (worked, total), (before, begun) = self._now(), self._begun
        return worked - before > cpu_seconds or total - begun > seconds

    @property
    def delta(self) -> datetime.timedelta:
        return datetime.timedelta(seconds=self.seconds)


@contextmanager
def clocks_ahead(seconds: float, ends_timers: bool = True) -> Iterator[Shift]:
    """Set the clocks of `time` and `datetime` ahead in this block. If `ends_timers` is set, pending timers fire before
    the block runs, and long waits of threads end."""
    put_back: list[Callable[[], object]] = []
    shift = Shift(seconds)
    replacements = _functions_ahead(shift)
    ahead: dict[int, Any] = {id(original): new for original, new in replacements}
    dates = _dates_ahead(shift)
    gc.unfreeze()  # the search below then also finds objects that were frozen before the fork
    # Search for all clocks at once, because each search visits every live object. A second search finds functions with
    # default arguments.
    holders = gc.get_referrers(*(original for original, _ in replacements), *_date_classes())
    methods = {id(one): one for one in holders if _is_stored_now(one, dates)}
    if methods:
        holders = [*holders, *gc.get_referrers(*methods.values())]
        ahead |= {at: getattr(dates[id(one.__self__)], one.__name__) for at, one in methods.items()}
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
        put_back += _set_in_slots(holder, ahead)
        names = holder if type(holder) is dict else getattr(holder, "__dict__", None)
        if type(names) is not dict or _is_namespace(names):
            continue
        is_module = names is holder and "__name__" in names and "__spec__" in names
        for name, value in list(names.items()):
            new = ahead.get(id(value)) if isinstance(name, str) else None
            if is_module:
                new = dates.get(id(value), new)
            if new is not None:
                names[name] = new
                put_back.append(partial(names.__setitem__, name, value))
    put_back += _set_in_classes([one for one in holders if type(one) is dict and _is_namespace(one)], ahead)
    if ends_timers:
        _end_timers()
    try:
        yield shift
    finally:
        for undo in reversed(put_back):
            undo()


def _is_namespace(names: dict[Any, Any]) -> bool:
    """Return whether a dict holds the variables of a class."""
    return "__module__" in names and "__doc__" in names and "__spec__" not in names


def _set_in_slots(holder: Any, ahead: Mapping[int, Any]) -> Iterator[Callable[[], object]]:
    """Replace clocks that an object has in slots or that a `functools.partial` calls. For each replaced clock, yield a
    function that puts it back."""
    if type(holder) is partial and id(holder.func) in ahead:
        set_state: Callable[[Any], object] = getattr(holder, "__setstate__")  # noqa: B009
        rest = (holder.args, holder.keywords, holder.__dict__)
        yield partial(set_state, (holder.func, *rest))
        set_state((ahead[id(holder.func)], *rest))
    for _, slot in layout_of(type(holder)).slots:
        with suppress(AttributeError):  # this slot is empty
            value = slot.__get__(holder)
            if id(value) in ahead:
                slot.__set__(holder, ahead[id(value)])
                yield partial(slot.__set__, holder, value)


def _set_in_classes(namespaces: list[dict[Any, Any]], ahead: Mapping[int, Any]) -> Iterator[Callable[[], object]]:
    """Set clocks in the classes that have these variables. For each replaced clock, yield a function that puts it back.
    Python caches lookups in classes, so a variable of a class has to be set through the class."""
    holders = gc.get_referrers(*namespaces) if namespaces else []
    for kind in [one for one in holders if issubclass(type(one), type) and one.__flags__ & _IS_HEAP_TYPE]:
        for name, value in [(name, value) for name, value in vars(kind).items() if id(value) in ahead]:
            type.__setattr__(kind, name, ahead[id(value)])
            yield partial(type.__setattr__, kind, name, value)


_IS_HEAP_TYPE = 1 << 9
"The flag of classes that Python code has defined. Only variables of such classes can be set."


def _end_timers() -> None:
    """Call the functions of the user's pending timers, because by the new time these timers would have fired."""
    for timer in threading.enumerate():
        if isinstance(timer, threading.Timer):
            timer.cancel()
            with suppress(Exception):  # in the program, such an error would only have ended the timer's thread
                timer.function(*timer.args, **timer.kwargs)
    end_long_waits()


def _date_classes() -> tuple[type, ...]:
    numpy: Any = sys.modules.get("numpy")
    return (datetime.datetime, datetime.date, *([] if numpy is None else [numpy.datetime64]))


class _Ahead:
    """Replaces a function that returns a time. This is an object and not a function, because Python would turn a
    function in a class into a method."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *given: Any) -> Any:
        return self._call(*given)


def _functions_ahead(shift: Shift) -> list[tuple[Any, _Ahead]]:
    """Return the functions that depend on the time, each with its replacement."""
    true = (time.time, time.localtime, time.strftime)  # a reference inside a tuple is not replaced

    def clock(original: Any) -> _Ahead:
        read = (original,)
        if original.__name__.endswith("_ns"):
            return _Ahead(lambda *which: read[0](*which) + int(shift.seconds * 1_000_000_000))
        return _Ahead(lambda *which: read[0](*which) + shift.seconds)

    def calendar(original: Any) -> _Ahead:
        form = (original,)
        return _Ahead(lambda at=None: form[0](true[0]() + shift.seconds if at is None else at))

    def usage(original: Any) -> _Ahead:
        read = (original,)

        def with_later_times(*arguments: Any) -> Any:
            now = read[0](*arguments)
            return type(now)([part + shift.seconds if isinstance(part, float) else part for part in now])

        return _Ahead(with_later_times)

    text = _Ahead(
        lambda form, parts=None: true[2](form, true[1](true[0]() + shift.seconds) if parts is None else parts)
    )
    clocks = [getattr(time, f"{name}{unit}") for name in _SECONDS for unit in ("", "_ns") if hasattr(time, name)]
    calendars = [getattr(time, name) for name in _CALENDARS]
    resource: Any = sys.modules.get("resource")  # not all systems have it
    usages = [os.times, *([] if resource is None else [resource.getrusage])]
    found = [(one, clock(one)) for one in clocks] + [(one, calendar(one)) for one in calendars]
    return [*found, *((one, usage(one)) for one in usages), (time.strftime, text)]


_TIME = (datetime.datetime,)
"The true class, in a tuple because a reference inside a tuple is not replaced."


class _OfBase(type):
    """A metaclass. For its classes, `isinstance` is true for every instance of their base class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__base__ or object)


def _is_stored_now(holder: Any, dates: Mapping[int, type]) -> bool:
    """Return whether this is a bound method such as `datetime.now`."""
    is_method = type(holder) is BuiltinFunctionType and holder.__name__ in _OF_DATES
    return is_method and id(holder.__self__) in dates


_OF_DATES = ("now", "utcnow", "today")


def _dates_ahead(shift: Shift) -> dict[int, type]:
    """Return the replacements of the date classes, by the id of the original class."""

    class LaterTime(datetime.datetime, metaclass=_OfBase):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return _TIME[0].now(tz) + shift.delta

        @classmethod
        def utcnow(cls) -> Any:
            return _TIME[0].utcnow() + shift.delta

        @classmethod
        def today(cls) -> Any:
            return _TIME[0].today() + shift.delta

    class LaterDate(datetime.date, metaclass=_OfBase):
        @classmethod
        def today(cls) -> Any:
            return (_TIME[0].today() + shift.delta).date()

    later = (LaterTime, LaterDate, *(_numpy_times_ahead(one, shift) for one in _date_classes()[2:]))
    return {id(original): new for original, new in zip(_date_classes(), later, strict=True)}


def _numpy_times_ahead(original: Any, shift: Shift) -> type:
    second = sys.modules["numpy"].timedelta64(1, "s")

    class OfOriginal(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original)

    class LaterStamp(metaclass=OfOriginal):
        def __new__(cls, *given: Any) -> Any:
            stamp = original(*given)
            return stamp + int(shift.seconds) * second if given and given[0] in ("now", "today") else stamp

    return LaterStamp
