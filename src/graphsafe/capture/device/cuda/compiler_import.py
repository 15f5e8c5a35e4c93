"""Reads memory snapshots and profiles kernels without importing torch's compiler.

Memory snapshots and the profiler call `hasattr(torch, "_inductor")`, and torch answers by importing the compiler. This
takes a second in each process (H100, torch 2.11). Snapshots and profiles also work without the compiler, if nothing
else has imported it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from graphsafe.capture.shared.replaced import replaced

_NAME = "_inductor"


def no_compiler_import() -> AbstractContextManager[None]:
    """In this block, torch says that it has no compiler, unless the process has already imported it."""
    lazy: set[str] = getattr(torch, "_lazy_modules", set())
    if _NAME not in lazy or _NAME in vars(torch):
        return nullcontext()
    return replaced((torch, "_lazy_modules", lazy - {_NAME}))


def memory_segments() -> list[dict[str, Any]]:
    """Return the allocator's segments, with their blocks."""
    with no_compiler_import():
        found: Any = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
    return list(found)


@contextmanager
def profiling(activities: Sequence[ProfilerActivity]) -> Iterator[profile]:
    """Profile a block. Inside the block, the compiler can be imported as usual."""
    with ExitStack() as stack:
        with no_compiler_import():
            profiler = stack.enter_context(profile(activities=activities))
        yield profiler
