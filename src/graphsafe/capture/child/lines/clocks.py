"""Sets the host's clocks ahead, to test code that depends on the time. Long waits of the user's threads then end: a
thread may sleep for ten seconds, then change a setting that the step reads.

The functions are replaced wherever the user's code refers to them: in the module `time`, in variables of modules and
classes, in attributes and slots (`from time import monotonic`, `self.clock = time.time`), in closures, in default
arguments and in `functools.partial`. Stored methods of the date classes (`self.now = datetime.now`) are replaced too. A
reference inside a list still leads to the true clock. So does a reference inside a tuple, unless the tuple holds
default arguments.
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

from graphsafe.capture.child.state.objects import layout_of
from graphsafe.capture.shared.replaced import replaced

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
        self._true = (time.process_time, time.monotonic, time.time)  # a reference inside a tuple is not replaced
        self._begun = time.process_time(), time.monotonic()

    def now(self) -> float:
        """Return the time that the clocks show."""
        return self._true[2]() + self.seconds

    def is_over(self, cpu_seconds: float, seconds: float) -> bool:
        """Return whether this much real CPU time, or real time, has passed since the clocks were set ahead."""
        worked, begun = self._begun
        return self._true[0]() - worked > cpu_seconds or self._true[1]() - begun > seconds

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
    namespaces = [one for one in holders if type(one) is dict and _is_namespace(one)]
    for holder in (*holders, *(gc.get_referrers(*namespaces) if namespaces else ())):
        later = ahead | dates if type(holder) is dict and "__name__" in holder and "__spec__" in holder else ahead
        for place, value in _places_in(holder):
            if id(value) in later:
                place(later[id(value)])
                put_back.append(partial(place, value))
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


def _places_in(holder: Any) -> Iterator[tuple[Callable[[Any], object], Any]]:
    """Yield the values that an object holds directly. Each value comes with a function that sets another value in its
    place."""
    if type(holder) is CellType:
        yield partial(setattr, holder, "cell_contents"), holder.cell_contents
    elif type(holder) is partial:
        set_state: Callable[[Any], object] = getattr(holder, "__setstate__")  # noqa: B009
        rest = (holder.args, holder.keywords, holder.__dict__)
        yield lambda called: set_state((called, *rest)), holder.func
    elif issubclass(type(holder), type):
        # Python caches lookups in classes, so a variable of a class has to be set through the class.
        for name, value in list(vars(holder).items()) if holder.__flags__ & _IS_HEAP_TYPE else ():
            yield partial(type.__setattr__, holder, name), value
    for _, slot in layout_of(type(holder)).slots:
        with suppress(AttributeError):  # this slot is empty
            yield partial(slot.__set__, holder), slot.__get__(holder)
    names = holder if type(holder) is dict else getattr(holder, "__dict__", None)
    if type(names) is dict and not _is_namespace(names):
        for name, value in list(names.items()):
            if isinstance(name, str):
                yield partial(names.__setitem__, name), value


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

    def __init__(self, original: Callable[..., Any], change: Callable[..., Any]) -> None:
        """`change` is called with the original function and the arguments of each call."""
        self._true = (original,)  # a reference inside a tuple is not replaced
        self._change = change

    def __call__(self, *given: Any) -> Any:
        return self._change(*self._true, *given)


def _functions_ahead(shift: Shift) -> list[tuple[Any, _Ahead]]:
    """Return the functions that depend on the time, each with its replacement."""

    def seconds(read: Any, *which: Any) -> Any:
        return read(*which) + shift.seconds

    def nanoseconds(read: Any, *which: Any) -> Any:
        return read(*which) + int(shift.seconds * 1_000_000_000)

    def calendar(form: Any, at: Any = None) -> Any:
        return form(shift.now() if at is None else at)

    def text(write: Any, form: Any, parts: Any = None) -> Any:
        return write(form, time.localtime(shift.now()) if parts is None else parts)

    def usage(read: Any, *arguments: Any) -> Any:
        now = read(*arguments)
        return type(now)([part + shift.seconds if isinstance(part, float) else part for part in now])

    changes: dict[str, Callable[..., Any]] = {name: seconds for name in _SECONDS}
    changes |= {f"{name}_ns": nanoseconds for name in _SECONDS}
    changes |= {name: calendar for name in _CALENDARS} | {"strftime": text}
    found = [(getattr(time, name), change) for name, change in changes.items() if hasattr(time, name)]
    resource: Any = sys.modules.get("resource")  # not all systems have it
    found += [(one, usage) for one in (os.times, *([] if resource is None else [resource.getrusage]))]
    return [(original, _Ahead(original, change)) for original, change in found]


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


_LONG = 0.5
"A wait of this many seconds or more is long. Shorter waits end by themselves while further steps run."
_MOMENT = 0.05
"Seconds that threads have for their work, once their waits have ended."
_waiting: list[threading.Condition] = []
_sleep, _wait = time.sleep, threading.Condition.wait


@contextmanager
def long_waits_noted() -> Iterator[None]:
    """Let `end_long_waits` end the waits that threads begin in this block: calls of `time.sleep`, and waits for events,
    conditions and queues with a timeout."""

    def wait(condition: threading.Condition, timeout: float | None = None) -> bool:
        if timeout is None or not _is_long(timeout):
            return _wait(condition, timeout)
        _waiting.append(condition)
        try:
            return _wait(condition, timeout)
        finally:
            _waiting.remove(condition)

    def sleep(seconds: float, /) -> None:
        if not _is_long(seconds):
            return _sleep(seconds)
        alone = threading.Condition()
        with alone:
            alone.wait(seconds)

    with replaced((time, "sleep", sleep), (threading.Condition, "wait", wait)):
        yield


def _is_long(seconds: float) -> bool:
    return seconds >= _LONG and threading.current_thread() is not threading.main_thread()


def end_long_waits() -> None:
    """End each long wait once, as if its time were over."""
    ended = [*_waiting]
    for condition in ended:
        with condition:
            condition.notify_all()
    if ended:
        _sleep(_MOMENT)
