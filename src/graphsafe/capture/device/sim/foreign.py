"""Notes work that does not go through PyTorch's dispatcher and is therefore not simulated."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import _pop_mode, _push_mode

from graphsafe.capture.device.sim import world as worlds
from graphsafe.capture.device.sim.dispatch_mode import SimDispatchMode
from graphsafe.capture.device.sim.effects import Scope
from graphsafe.capture.device.sim.function_mode import SimFunctionMode
from graphsafe.capture.device.sim.tags import HOST, max_device_index, tag_of_storage, tags_of
from graphsafe.capture.device.sim.world import World, simulated
from graphsafe.capture.device.structures import tensors_in
from graphsafe.capture.shared.frames import is_graphsafe_file

OTHER_THREAD = "a thread that the step starts"
"The name in a report for the threads that a step starts."


def replacements() -> Iterator[tuple[Any, str, Any]]:
    dlpack = partial(_handed_out, "torch.Tensor.__dlpack__")
    yield torch.Tensor, "__dlpack__", simulated(torch.Tensor.__dlpack__, dlpack)
    interface = vars(torch.Tensor).get("__cuda_array_interface__")
    if isinstance(interface, property) and interface.fget is not None:
        handed_out = partial(_handed_out, "torch.Tensor.__cuda_array_interface__")
        yield torch.Tensor, "__cuda_array_interface__", property(simulated(interface.fget, handed_out))
    yield torch.UntypedStorage, "resize_", simulated(torch.UntypedStorage.resize_, _resized)
    yield threading.Thread, "start", _started(threading.Thread.start)
    for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        yield kind, "__call__", simulated(kind.__call__, _scripted)
    if importlib.util.find_spec("triton") is not None:
        yield importlib.import_module("triton.runtime.jit").JITFunction, "run", _skipped
        autotuner = importlib.import_module("triton.runtime.autotuner")
        yield autotuner.Autotuner, "run", _skipped
        yield autotuner.Heuristics, "run", _skipped


def _handed_out(
    name: str, world: World, real: Callable[..., Any], tensor: torch.Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Report memory that is passed to another library, which may write to it at any time."""
    if max_device_index(tensor) != HOST:
        with torch._C.DisableTorchFunction():
            world.record_unknown_effect(name, tags_of([tensor]))
    return real(tensor, *args, **kwargs)


def _resized(world: World, real: Callable[..., Any], storage: torch.UntypedStorage, size: int) -> Any:
    """Report a resized storage, whose memory is freed and allocated again (FSDP's gathered parameters). On a GPU, the
    allocator may give the memory to other tensors in between. On the simulated device the memory stays where it is,
    because a graph uses its address."""
    if tag_of_storage(storage) is None:
        return real(storage, size)
    world.record_unknown_effect("torch.UntypedStorage.resize_")
    if size != storage.nbytes():
        world.resized(storage)
    return storage if size <= storage.nbytes() else real(storage, size)


def _started(real: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """Enter the modes in each new thread, because each thread has its own modes. Report a thread that a step starts:
    the work of this thread is seen, but not the order of that work relative to other threads. graphsafe's own threads
    launch no work."""

    def start(thread: threading.Thread) -> None:
        world = worlds.active()
        if world is not None and not is_graphsafe_file(sys._getframe(1).f_code.co_filename):
            if world.session is not None or world.sink is not None:
                world.record_unknown_effect(OTHER_THREAD)
            thread.run = _in_modes(thread, world)  # type: ignore[method-assign]
        real(thread)

    return start


def _in_modes(thread: threading.Thread, world: World) -> Callable[[], None]:
    own = vars(thread).get("run")

    def run() -> None:
        del thread.run  # otherwise a reference cycle would keep the thread's target alive
        if own is not None:
            thread.run = own  # type: ignore[method-assign]
        with SimFunctionMode(world):
            # `with` is not used, because it also sets flags of the process, which threads would restore in the wrong
            # order.
            mode = SimDispatchMode(world)  # torch 2.6 frees a mode that it pops, unless something else refers to it
            _push_mode(mode)
            try:
                thread.run()
            finally:
                _pop_mode()

    return run


def _scripted(world: World, real: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
    """Report TorchScript, which reads devices in C++: a tensor that it creates is on the device of its arguments. Its
    fusion of operations on a GPU is not simulated."""
    index = max_device_index((args, kwargs))
    if index != HOST:
        world.record_unknown_effect(f"TorchScript {function.name}")
    with world.within(Scope(via=world.here.scope.via, place=index)):
        return real(function, *args, **kwargs)


def _skipped(kernel: Any, *args: Any, **kwargs: Any) -> None:
    """Leave out a Triton kernel, which needs a GPU, so that the rest of the step can be examined."""
    world = worlds.active()
    if world is None:
        raise RuntimeError("a Triton kernel outside the simulated device that replaced its launcher")
    function = getattr(kernel, "fn", kernel)
    with torch._C.DisableTorchFunction():
        written = tags_of(tensors_in((args, kwargs)))
    world.record_unknown_effect(f"Triton kernel {getattr(function, '__name__', function)}", written)
