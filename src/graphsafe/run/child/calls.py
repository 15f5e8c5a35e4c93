"""Finds the call that does the work of a capture, and counts the same calls outside of captures.

While a capture runs, Python reports each call (`sys.monitoring`, from Python 3.12 on). The step is the outermost call
of a module that recorded at least half of the graph's nodes. If no module recorded so many nodes, the step is the
outermost call of a function that recorded at least half. After the capture, only calls of the step's code are reported.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from graphsafe.capture.shared.frames import function_name, is_user_file, user_frames
from graphsafe.capture.shared.monitoring import Monitor
from graphsafe.failure import in_one_line
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import elements_of, locals_of, weak_to
from graphsafe.run.child.steps import Shapes, Step, Steps

_DEEPEST = 8
"At most this many nested calls are followed."
_MOST_PARAMETERS = 16
"At most this many parameters of a module are checked for `requires_grad`."
_UNFINISHED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, dict, set, type, torch.Tensor)
"Values of these types cannot distinguish two calls of one function."

Owners = tuple[tuple[str, "weakref.ref[Any]"], ...]
"""The owners of a call: its `self` (or first argument), and the modules and tensors in its closure. Each is a
variable's name and a weak reference.

Calls of one function with different owners are different steps.
"""


@dataclass(frozen=True, slots=True)
class _Call:
    code: CodeType
    owners: Owners
    is_module: bool
    shapes: Shapes
    recorded: bool
    frames: tuple[CallSite, ...]
    "The stack of calls that led to this call."
    nodes: int
    "The number of nodes that were recorded during this call."


class _Region:
    """The calls that ran during one capture."""

    def __init__(self, recorded: Callable[[], int]) -> None:
        self._recorded = recorded
        self._open: list[tuple[FrameType, int, Owners, Shapes, bool]] = []
        self._found: list[_Call] = []

    def started(self, frame: FrameType) -> None:
        if len(self._open) < _DEEPEST and _may_be_step(frame):
            values = locals_of(frame)
            owners, shapes = _owners(frame.f_code, values), _shapes(frame.f_code, values)
            self._open.append((frame, self._recorded(), owners, shapes, _is_recorded(frame.f_code, values)))

    def ended(self, frame: FrameType) -> None:
        if not self._open or self._open[-1][0] is not frame:
            return
        _, before, owners, shapes, recorded = self._open.pop()
        now = self._recorded()
        if shapes and 0 < now <= 2 * (now - before):
            frames, _ = user_frames(frame.f_back)
            code = frame.f_code
            self._found.append(_Call(code, owners, _is_forward(code), shapes, recorded, frames, now - before))

    def calls(self) -> list[_Call]:
        """Return the calls that recorded at least half of the graph's nodes. Calls of modules come first, and an outer
        call comes before the calls inside it."""
        total = self._recorded()
        found = [call for call in reversed(self._found) if total <= 2 * call.nodes]
        return sorted(found, key=lambda call: not call.is_module)


class CalledSteps:
    """Watches the calls of this process. `recorded` returns the number of nodes that the running capture has so far."""

    def __init__(self, steps: Steps, recorded: Callable[[], int]) -> None:
        self._steps = steps
        self._recorded = recorded
        self._regions: dict[int, _Region] = {}
        "Thread -> the calls that its running capture has made."
        self._watched: dict[CodeType, list[tuple[Owners, int]]] = {}
        "Code object -> the owners and the number of each step that runs it."
        self._count = 0
        self._monitor = Monitor({"PY_START": self._started, "PY_RETURN": self._ended, "PY_UNWIND": self._ended})
        self.problem = self._monitor.problem
        "Why calls cannot be seen, or None."

    def close(self) -> None:
        self._monitor.hear()
        for code in self._watched:
            self._monitor.hear(of=code)
        self._monitor.close()

    def begin(self) -> None:
        """Follow the calls of the capture that has begun in this thread."""
        if self._monitor:
            self._regions[threading.get_ident()] = _Region(self._recorded)
            self._listen()

    def end(self) -> Step | None:
        """Return the step that this thread has captured, and count its later calls. Return None if the step is
        unknown."""
        region = self._regions.pop(threading.get_ident(), None)
        if region is None:
            return None
        self._listen()
        calls = region.calls()
        call = next((one for one in calls if self._number(one) is not None), calls[0] if calls else None)
        return None if call is None else self._step(call)

    def leave(self) -> None:
        """Stop following the calls of this thread's capture, which will never end."""
        self._regions.pop(threading.get_ident(), None)
        self._listen()

    def _listen(self) -> None:
        """Let Python report all calls while a capture runs, and none otherwise."""
        self._monitor.hear(*(("PY_START", "PY_RETURN", "PY_UNWIND") if self._regions else ()))

    def _number(self, call: _Call) -> int | None:
        known = self._watched.get(call.code, ())
        return next((number for owners, number in known if _same(owners, call.owners)), None)

    def _step(self, call: _Call) -> Step:
        number = self._number(call)
        if number is None:
            number = self._count = self._count + 1
            self._watched.setdefault(call.code, []).append((call.owners, number))
            self._monitor.hear("PY_START", of=call.code)
        key = (function_name(call.code) or "", "", number)
        return Step((key,), call.shapes, call.frames, call.recorded)

    def _started(self, code: CodeType, _: int) -> None:
        try:
            region = self._regions.get(threading.get_ident()) if self._regions else None
            if region is not None:
                region.started(sys._getframe(1))
            elif code in self._watched:
                self._eager(code, sys._getframe(1))
        except Exception as error:  # an error of graphsafe must not stop the program
            self._fail(error)

    def _ended(self, code: CodeType, *_: Any) -> None:
        region = self._regions.get(threading.get_ident())
        try:
            if region is not None:
                region.ended(sys._getframe(1))
        except Exception as error:
            self._fail(error)

    def _eager(self, code: CodeType, frame: FrameType) -> None:
        values = locals_of(frame)
        for owners, number in self._watched[code]:
            if all(values.get(name) is owner() is not None for name, owner in owners):
                key = (function_name(code) or "", "", number)
                recorded = _is_recorded(code, values)
                self._steps.eager((key,), _shapes(code, values), recorded, lambda: user_frames(frame.f_back)[0])
                return

    def _fail(self, error: Exception) -> None:
        self.problem = in_one_line(error)
        self._regions.clear()
        self.close()


def _may_be_step(frame: FrameType) -> bool:
    """Return whether the called function belongs to the user or is the `forward` of a module."""
    code = frame.f_code
    if code.co_flags & _UNFINISHED or not code.co_flags & inspect.CO_OPTIMIZED:
        return False
    return is_user_file(code.co_filename) or _is_forward(code)


def _is_forward(code: CodeType) -> bool:
    return code.co_name == "forward" and code.co_varnames[:1] == ("self",)


def _parameters(code: CodeType) -> Iterator[str]:
    """Return the names of a function's parameters, `*args` and `**kwargs` included."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return iter(code.co_varnames[:count])


def _owners(code: CodeType, values: dict[str, Any]) -> Owners:
    first = code.co_varnames[:1] if code.co_argcount else ()
    kept = {name: values.get(name) for name in first if not isinstance(values.get(name), (*_PLAIN, type(None)))}
    closure = (name for name in code.co_freevars if isinstance(values.get(name), (torch.nn.Module, torch.Tensor)))
    kept |= {name: values[name] for name in closure}
    owners = ((name, weak_to(value)) for name, value in kept.items())
    return tuple((name, owner) for name, owner in owners if owner is not None)


def _same(one: Owners, other: Owners) -> bool:
    """Return whether two calls have the same owners, and all owners still exist."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a == b and x() is y() is not None for (a, x), (b, y) in pairs)


def _tensors(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if issubclass(type(value), torch.Tensor):
        yield value
    elif depth < 3:
        for item in elements_of(value):
            yield from _tensors(item, depth + 1)


def _shapes(code: CodeType, values: dict[str, Any]) -> Shapes:
    """Return the shapes of the tensors among a call's arguments.

    If there are device tensors, only their shapes are returned. Symbolic shapes are left out, because reading them
    would change the trace.
    """
    with torch._C.DisableTorchFunction():
        tensors = [tensor for name in _parameters(code) for tensor in _tensors(values.get(name))]
        tensors = [tensor for tensor in tensors if not tensor.is_cpu] or tensors
        shapes = tuple(tuple(tensor.shape) for tensor in tensors)
    return shapes if all(type(size) is int for shape in shapes for size in shape) else ()


def _is_recorded(code: CodeType, values: dict[str, Any]) -> bool:
    """Return whether autograd records the call: an argument or a parameter of the called module requires a gradient."""
    if not torch.is_grad_enabled():
        return False
    owner = values.get("self")
    parameters = itertools.islice(owner.parameters(), _MOST_PARAMETERS) if isinstance(owner, torch.nn.Module) else ()
    with torch._C.DisableTorchFunction():
        given = (tensor for name in _parameters(code) for tensor in _tensors(values.get(name)))
        return any(tensor.requires_grad for tensor in itertools.chain(given, parameters))
