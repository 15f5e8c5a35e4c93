"""Runs the scan in a thread with a large stack, since it follows calls by recursion, and without garbage collection."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

STACK_BYTES = 512 * 1024 * 1024
RECURSION = 20_000

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
            results.append(work())
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
