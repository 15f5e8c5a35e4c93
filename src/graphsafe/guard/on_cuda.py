"""Watches one thread's use of a GPU, with a dispatch mode and with PyTorch's callbacks before each wait and allocation.

A callback runs on the thread that waits. It does nothing on threads that are not watched, and it never raises an error.
The mode records which operation is running, and is also active on the threads of autograd. The mode sees copies that
PyTorch treats as asynchronous although their memory is pageable. It does not change how code is compiled or runs.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import FrameType
from typing import Any, Literal

import torch
from torch.profiler import ProfilerActivity
from torch.utils._python_dispatch import TorchDispatchMode

from graphsafe.capture.answers.events import StepEvent, StepEventKind
from graphsafe.capture.device.cuda import gpu_trace
from graphsafe.capture.device.cuda.compiler_import import profiling
from graphsafe.capture.device.cuda.trace import Running
from graphsafe.capture.shared.frames import frames_from, frames_under, torch_function, user_frames
from graphsafe.errors import RequestError
from graphsafe.guard.calls import running_call
from graphsafe.guard.source import Launches, Listener

_COMPILERS = {
    "/torch/_dynamo/convert_frame.py": None,
    "/torch/_inductor/compile_fx.py": ("compile_fx", "compile_fx_inner", "fx_codegen_and_compile"),
    "/torch/_inductor/cudagraph_trees.py": ("cudagraphify", "record_function", "run_eager"),
    "/torch/_inductor/runtime/triton_heuristics.py": None,
}
"""Code that compiles, tunes and records graphs on first use, by file and function (None for all functions).

Such code waits, but it is not part of the step.
"""

_LOW = 0xFFFFFFFF
"The bits of a thread's id that CUPTI keeps."

_heard: dict[int, _Work] = {}
"Thread -> the work to which its waits and allocations belong."


class _Work(Running):
    """The work that one thread does for a block. This thread entered the block, or it is a thread of autograd that
    works for the thread that did."""

    def __init__(self, listener: Listener, owner: int) -> None:
        super().__init__(listener.told)
        self._listener = listener
        self._owner = owner

    def call(self) -> str | None:
        called = running_call(sys._getframe(1))
        if self.op != "aten::_local_scalar_dense" or called is None:
            return called
        entry = self.table.python(called)
        reads = called.startswith("torch.Tensor.__") or (entry is not None and entry.effects)
        return called if reads else "torch.Tensor.__bool__"

    def report(self, kind: StepEventKind, op: str, nbytes: int | None = None, **data: Any) -> None:
        if not self._listener.wants(kind) or _is_compiling(sys._getframe(1)):
            return
        _, span = user_frames()
        called = torch_function(sys._getframe())
        self.sink(StepEvent(kind, op, frames_under(self._owner), span, self.call(), nbytes, data, called))


class _Ops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    supports_higher_order_operators = True

    def __init__(self, listener: Listener, owner: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._listener = listener
        self._owner = owner

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True, so that Dynamo compiles under this mode as it does without it."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        thread = threading.get_ident()
        is_new = thread not in _heard
        if is_new:
            _heard[thread] = _Work(self._listener, self._owner)
        work = _heard[thread]
        try:
            if isinstance(func, torch._ops.OpOverload):
                work.begin_op(func._schema.name, args, kwargs or {})
            return func(*args, **(kwargs or {}))
        finally:
            work.op, work.reported = None, False
            if is_new:
                del _heard[thread]


class CudaSource:
    evidence: Literal["measured", "predicted"] = "measured"

    @contextmanager
    def watched(self, listener: Listener) -> Iterator[None]:
        _listen()
        owner = threading.get_ident()
        # In torch versions without this method (2.6), a dispatch mode would keep Dynamo from compiling.
        knows = hasattr(TorchDispatchMode, "ignore_compile_internals")
        mode: Any = _Ops(listener, owner) if knows else nullcontext()
        _heard[owner] = _Work(listener, owner)
        try:
            with gpu_trace.traced(), mode:
                yield
        finally:
            del _heard[owner]

    @contextmanager
    def launches_counted(self) -> Iterator[Callable[[], Launches]]:
        if torch._C._autograd._profiler_enabled():
            raise RequestError("graphsafe.forbid(launches=...): a profiler, or another such block, is already counting")
        threads = {threading.get_native_id(), threading.get_ident() & _LOW}
        with ExitStack() as stack:
            with _unheard():
                profiler = stack.enter_context(profiling([ProfilerActivity.CUDA]))
            yield lambda: Launches(_launches(profiler, threads))
            with _unheard():
                torch.cuda.synchronize()
                stack.close()

    def unknown(self) -> tuple[str, ...]:
        return ()


def _launches(profiler: Any, threads: set[int]) -> int:
    """Count the kernels and graphs that a thread has launched.

    If launches cannot be attributed to threads, all launches of the process are counted. Kineto identifies a thread by
    the thread id of the operating system, if the profiler has recorded this id. Otherwise, it identifies the thread by
    the low half of its pthread id.
    """
    events = profiler.profiler.kineto_results.events()
    calls = [event for event in events if event.name().startswith(("cudaLaunch", "cuLaunch", "cudaGraphLaunch"))]
    own = [event for event in calls if event.device_resource_id() & _LOW in threads]
    return len(own or calls)


@contextmanager
def _unheard() -> Iterator[None]:
    """Ignore this module's own work on a watched thread."""
    thread = threading.get_ident()
    work = _heard.pop(thread)
    try:
        yield
    finally:
        _heard[thread] = work


@functools.cache
def _listen() -> None:
    untraced: Any = torch._disable_dynamo  # type: ignore[attr-defined]
    gpu_trace.register(
        stream_synchronization=untraced(_stream_wait),
        device_synchronization=untraced(functools.partial(_wait, "torch.cuda.synchronize")),
        event_synchronization=untraced(functools.partial(_wait, "torch.cuda.Event.synchronize")),
        memory_allocation=untraced(_allocation),
    )


def _stream_wait(*_: Any) -> None:
    work = _heard.get(threading.get_ident())
    if work is not None:
        work.waited()


def _wait(name: str, *_: Any) -> None:
    work = _heard.get(threading.get_ident())
    if work is not None and not work.reported:
        work.report("wait", name)


def _allocation(*_: Any) -> None:
    work = _heard.get(threading.get_ident())
    if work is not None:
        work.report("allocation", work.op or "")


def _is_compiling(frame: FrameType) -> bool:
    return any(
        at.f_code.co_filename.endswith(file) and (names is None or at.f_code.co_name in names)
        for at in frames_from(frame)
        for file, names in _COMPILERS.items()
    )
