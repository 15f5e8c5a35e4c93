"""Ends long waits of the user's threads when clocks are set ahead: a thread may sleep for ten seconds, then change a
setting that the step reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from graphsafe.capture.shared.replaced import replaced

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
