"""Work that PyTorch's dispatcher never sees: what the device cannot vouch for, and says so."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from graphsafe.capture.device.sim import world as worlds
from graphsafe.capture.device.sim.tags import HOST, index_of
from graphsafe.capture.frames import is_user_file


def replacements() -> Iterator[tuple[Any, str, Any]]:
    yield torch.Tensor, "__dlpack__", _handed_out(torch.Tensor.__dlpack__, "torch.Tensor.__dlpack__")
    interface = vars(torch.Tensor).get("__cuda_array_interface__")
    if isinstance(interface, property) and interface.fget is not None:
        told = _handed_out(interface.fget, "torch.Tensor.__cuda_array_interface__")
        yield torch.Tensor, "__cuda_array_interface__", property(told)
    yield threading.Thread, "start", _started(threading.Thread.start)
    yield torch.jit, "script", _scripted(torch.jit.script)
    if importlib.util.find_spec("triton") is not None:
        yield importlib.import_module("triton.runtime.jit").JITFunction, "run", _skipped
        autotuner = importlib.import_module("triton.runtime.autotuner")
        yield autotuner.Autotuner, "run", _skipped
        yield autotuner.Heuristics, "run", _skipped


def _handed_out(real: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The memory goes to another library."""

    def told(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        world = worlds.active()
        if world is not None and not world.bypassed:
            with torch._C.DisableTorchFunction():
                if index_of(tensor) != HOST:
                    world.unknown.setdefault(name)
        return real(tensor, *args, **kwargs)

    return told


def _started(real: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """PyTorch's modes belong to a thread: what a step does in another one is not seen."""

    def start(thread: threading.Thread) -> None:
        world = worlds.active()
        if world is not None and (world.session is not None or world.sink is not None):
            world.unknown.setdefault("a thread that the step starts")
        real(thread)

    return start


def _scripted(real: Callable[..., Any]) -> Callable[..., Any]:
    """TorchScript asks C++ for devices. What PyTorch scripts for itself is not the user's."""

    def told(*args: Any, **kwargs: Any) -> Any:
        world = worlds.active()
        if world is not None and is_user_file(sys._getframe(1).f_code.co_filename):
            world.unknown.setdefault("torch.jit.script")
        return real(*args, **kwargs)

    return told


def _skipped(kernel: Any, *args: Any, **kwargs: Any) -> None:
    """A Triton kernel needs a GPU. It is left out, so that the rest of the step can be looked at."""
    world = worlds.active()
    if world is None:
        raise RuntimeError("a Triton kernel outside the simulated device that replaced its launcher")
    function = getattr(kernel, "fn", kernel)
    world.unknown.setdefault(f"Triton kernel {getattr(function, '__name__', function)}")
