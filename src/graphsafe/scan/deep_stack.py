"""Runs the scan in a thread with a large stack, since it follows calls by recursion, and without garbage collection."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

STACK_BYTES = 512 * 1024 * 1024
RECURSION = 20_000
FRAME_SLOTS = (1 << 20) + 1
"Just more than half of a power of two: 8 MB, of which nothing is ever touched."

Result = TypeVar("Result")


def run_deep(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises, run in a thread of its own.

    Syntax trees are freed by their reference counts; each one makes the collector look at everything that is kept
    beside it, which doubled the time of a small project and multiplied that of a large one.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(_with_room(work))
        except BaseException as error:
            errors.append(error)

    recursion = sys.getrecursionlimit()
    stack = threading.stack_size(STACK_BYTES)
    collecting = gc.isenabled()
    sys.setrecursionlimit(max(recursion, RECURSION))
    gc.disable()
    try:
        thread = threading.Thread(target=run, name="graphsafe-scan", daemon=True)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(recursion)
        threading.stack_size(stack)
        if collecting:
            gc.enable()
    if errors:
        # Not kept in this frame, which the error holds: without a collector neither would ever be freed.
        raise errors.pop()
    return results[0]


def _with_room(work: Callable[[], Result]) -> Result:
    """What `work` returns, run where a hundred thousand frames fit into one piece of memory.

    CPython 3.11 and later take memory for frames from the system in pieces of 16 KB, and give each back as soon as it
    is empty. Recursion goes back and forth over the end of a piece all the time, which was a tenth of a scan. A piece
    is larger only where one frame needs more: its size is the next power of two, and what that frame leaves of it is
    for those that it calls.
    """
    return work()


_with_room.__code__ = _with_room.__code__.replace(co_stacksize=FRAME_SLOTS)
