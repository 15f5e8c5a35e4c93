"""Runs the scan in a thread with a large stack and without garbage collection. The scan follows calls by recursion."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

STACK_BYTES = 512 * 1024 * 1024
RECURSION = 20_000
FRAME_SLOTS = (1 << 20) + 1
"""The stack size of `_with_room`'s frame, in slots of 8 bytes.

This is just over 8 MB, so CPython allocates 16 MB, and the frames of called functions use the other half. Nothing
writes to these 8 MB, so the operating system never provides memory for them.
"""

Result = TypeVar("Result")


def run_deep(work: Callable[[], Result]) -> Result:
    """Run `work` in a separate thread; return its result, or raise its error.

    The garbage collector is off meanwhile, because reference counts already free the syntax trees. While the collector
    was on, it visited all other objects again for each tree. A scan of a small project then took twice as long, and
    that of a large project even longer.
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
        # The error refers to this frame. If the frame kept the error, the two would form a cycle, which is never freed
        # while the collector is off.
        raise errors.pop()
    return results[0]


def _with_room(work: Callable[[], Result]) -> Result:
    """Run `work` where a hundred thousand frames fit into one piece of memory, and return its result.

    CPython 3.11 and later allocate memory for frames in pieces of 16 KB, and free each piece as soon as it is empty.
    Recursion crosses the end of a piece again and again, and this took a tenth of a scan's time. CPython allocates a
    larger piece only if a single frame needs it. The size of the piece is then the next power of two, and the frames of
    called functions use the rest.
    """
    return work()


_with_room.__code__ = _with_room.__code__.replace(co_stacksize=FRAME_SLOTS)
