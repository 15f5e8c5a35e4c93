"""Tracks the torch function that the user's Python code has called, and the aten op that runs inside this function.

A function mode sees `tensor.__bool__` and `torch.zeros` by name. A dispatch mode sees every aten op with its arguments.
Neither mode sees what happens inside an op of a C++ extension, or on the autograd engine's own threads.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from graphsafe.capture.answers.events import StepEvent, StepEventKind
from graphsafe.capture.device.cuda.nodes import Place, count_in_capture
from graphsafe.capture.device.modes import OperationMode
from graphsafe.capture.device.protocol import STOPS
from graphsafe.capture.device.structures import copy_of
from graphsafe.capture.shared.frames import torch_function, user_frames
from graphsafe.optable import OpTable
from graphsafe.rulebook.book import load_rulebook

_SUBSCRIPTS = ("torch.Tensor.__getitem__", "torch.Tensor.__setitem__")
_COPIES = frozenset({"aten::_to_copy", "aten::copy_", "aten::copy"})
_INDEXES = frozenset({"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"})
_KINDS: Mapping[str, StepEventKind] = {**STOPS, "copies": "copy-to-device"}
Sink = Callable[[StepEvent], None]


@functools.cache
def python_name(func: Any) -> str | None:
    """Return the function's name in the op table. Return None for an attribute such as `tensor.shape`, which reads no
    values."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return None
    resolved: str | None = resolve_name(func)
    if resolved is not None:
        return resolved
    if getattr(torch, name, None) is func:
        return f"torch.{name}"
    if getattr(torch.Tensor, name, None) is func:
        return f"torch.Tensor.{name}"
    return f"{getattr(func, '__module__', None) or 'torch'}.{name}"


class Running:
    """The torch function and the op that are running in this thread, and the events that they cause."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.table: OpTable = load_rulebook().ops
        self.via: str | None = None
        self.op: str | None = None
        self.reported = False
        "Whether the running op has already been reported. A wait inside the op is then not reported again."
        self.inside: str | None = None
        "A call that has been reported as a whole. Events inside it are not reported."
        self.before_op: Callable[[str, Sequence[Any]], None] | None = None
        self.after_op: Callable[[str, Sequence[Any]], None] | None = None

    def call(self) -> str | None:
        """Return the running torch function as the op table spells it. `graphsafe.guard` overrides this method."""
        return self.via

    def report(self, kind: StepEventKind, op: str, nbytes: int | None = None, **data: Any) -> None:
        if self.inside is not None:
            return
        frames, span = user_frames()
        self.sink(StepEvent(kind, op, frames, span, self.call(), nbytes, data, torch_function(sys._getframe())))

    def waited(self) -> None:
        """Report that the host waits for the device inside the running op or call."""
        if self.reported:
            return
        via = self.call()
        entry = self.table.python(via or "") if self.op is None else self.table.aten(self.op)
        effects = [effect.kind for effect in entry.effects] if entry is not None else []
        kind: StepEventKind = next((_KINDS[effect] for effect in effects if effect in _KINDS), "hidden-sync")
        if self.op is None and via is None:
            kind = "wait"
        if self.op in _INDEXES:
            self.report("extent", self.op, mask=True)
        elif self.op is None and via in _SUBSCRIPTS:
            # Report a copy and not the op: if the indices contain a list, PyTorch first makes a tensor from the list
            # and copies it to the device.
            self.report("copy-to-device", via, index=True, pinned=False, non_blocking=False)
        else:
            self.report(kind, self.op or via or "cudaStreamSynchronize", literal=via in _LITERALS)

    def begin_op(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.op, self.reported = name, False
        if self.before_op is not None:
            self.before_op(name, args)
        if name == "aten::_local_scalar_dense" and args[0].is_cuda:
            self._tell_once("read", name, dtype=str(args[0].dtype))
        elif name in _COPIES:
            self._copy(name, args, kwargs)
        elif name in _INDEXES and args[0].is_cuda:
            hosts = [index for index in args[1] if index is not None and not index.is_cuda]
            if hosts:
                self._tell_once("copy-to-device", name, index=True, pinned=hosts[0].is_pinned(), non_blocking=False)

    def _copy(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        source, target, non_blocking = copy_of(name, args, kwargs)
        there = kwargs.get("device") if target is None else target.device
        to_cuda = there is not None and torch.device(there).type == "cuda"
        if there is None or source.is_cuda == to_cuda:
            return
        host = source if to_cuda else target
        # the result of `.to("cpu", non_blocking=True)` is always in pinned memory
        pinned = non_blocking if host is None else host.is_pinned()
        self.reported = True
        if not (pinned and non_blocking):
            kind: StepEventKind = "copy-to-device" if to_cuda else "copy-to-host"
            dtype, literal = str(source.dtype).removeprefix("torch."), self.call() in _LITERALS
            self.report(
                kind, name, source.nbytes, dtype=dtype, pinned=pinned, non_blocking=non_blocking, literal=literal
            )

    def _tell_once(self, kind: StepEventKind, op: str, **data: Any) -> None:
        self.reported = True
        self.report(kind, op, **data)

    def end_call(self, name: str, result: Any, kwargs: Mapping[str, Any]) -> None:
        entry = self.table.python(name)
        if entry is None:
            return
        kinds = {effect.kind for effect in entry.effects}
        tensor = result if isinstance(result, torch.Tensor) else None
        if "allocates" in kinds and name not in _LITERALS and tensor is not None and tensor.is_cuda:
            self.report("allocation", entry.aten or name, tensor.nbytes)
        if "random" in kinds and tensor is not None:
            if not tensor.is_cuda:
                self.report("random", entry.aten or name, how="host-random")
            elif kwargs.get("generator") is not None:
                self.report("random", entry.aten or name, how="private-generator")


_LITERALS = frozenset(
    {"torch.tensor", "torch.as_tensor", "torch.asarray", "torch.Tensor.new_tensor", "torch.scalar_tensor"}
)


class _Calls(TorchFunctionMode):
    def __init__(self, running: Running) -> None:
        super().__init__()
        self._running = running

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = python_name(func)
        if name is None:
            return func(*args, **(kwargs or {}))
        running = self._running
        outer, running.via = running.via, name
        try:
            result = func(*args, **(kwargs or {}))
            running.end_call(name, result, kwargs or {})
            return result
        finally:
            running.via = outer


class _Ops(OperationMode):  # type: ignore[no-untyped-call]
    def __init__(self, running: Running) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._running = running

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        running = self._running
        name = func._schema.name if isinstance(func, torch._ops.OpOverload) else func.name()
        running.begin_op(name, args, kwargs or {})
        try:
            result = func(*args, **(kwargs or {}))
            if running.after_op is not None:
                running.after_op(name, args)
            return result
        finally:
            running.op, running.reported = None, False


def _ops(running: Running) -> _Ops:
    """Return the mode that sees operations. If dynamo is loaded, use a mode whose own code dynamo does not trace."""
    if "torch._dynamo" not in sys.modules:
        return _Ops(running)

    class OutsideDynamo(_Ops):  # type: ignore[no-untyped-call]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_dispatch__(func, types, args, kwargs)

    return OutsideDynamo(running)


@contextmanager
def traced(running: Running) -> Iterator[None]:
    # The first use of a dispatch mode imports modules, which takes seconds. So use a mode once before anything is
    # watched.
    with _ops(Running(lambda event: None)):
        torch.empty(0)
    with _Calls(running), _ops(running):
        yield


class NodePlaces:
    """Finds the user's line that launched each node of a capture, by counting the nodes before and after every
    operation. The places only explain differences. This recording itself is not compared, because it is not a plain
    recording."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.places: list[Place | None] = []
        self._stream = stream
        self._running = Running(lambda event: None)
        # A node has no known place if no torch operation launched it, as with a Triton kernel or an extension.
        self._running.before_op = lambda name, args: self._fill(None)
        self._running.after_op = lambda name, args: self._fill((*user_frames(), name))

    def watch(self, step: Callable[[], Any]) -> Any:
        with traced(self._running):
            outputs = step()
        self._fill(None)
        return outputs

    def _fill(self, place: Place | None) -> None:
        new = count_in_capture(self._stream) - len(self.places)
        self.places += [place] * new
