"""Replacements of PyTorch's functions while a simulated device is entered.

Without compilation, `torch.cond` and `torch.while_loop` read their predicate on the host, unless the capture makes them
nodes of the graph.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.overrides
import torch.utils._foreach_utils
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from graphsafe.capture.device.protocol import RESEEDS
from graphsafe.capture.device.sim import collectives, cuda, foreign
from graphsafe.capture.device.sim import world as worlds
from graphsafe.capture.device.sim.effects import Scope
from graphsafe.capture.device.sim.function_mode import function_mode_on, placed
from graphsafe.capture.device.sim.generators import Generator
from graphsafe.capture.device.sim.legality import NOT_PERMITTED, PAGEABLE
from graphsafe.capture.device.sim.streams import device_index
from graphsafe.capture.device.sim.tags import HOST, max_device_index, put_tag
from graphsafe.capture.device.sim.world import World, simulated
from graphsafe.capture.shared.replaced import replaced
from graphsafe.optable import Argument, Call


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    if not (isinstance(pred, torch.Tensor) and _becomes_node("torch.cond")):
        return true_fn(*operands) if pred else false_fn(*operands)
    worlds.current().limits["torch.cond runs both of its branches on the simulated device"] = (
        "in a CUDA graph they are two nodes, of which a replay runs one"
    )
    # Branches neither write nor alias their arguments, so both can run, and the predicate only selects the results.
    return pytree.tree_map(lambda one, other: torch.where(pred, one, other), true_fn(*operands), false_fn(*operands))


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    reading: Callable[[], AbstractContextManager[None]] = nullcontext
    if _becomes_node("torch.while_loop"):
        reading = worlds.current().unseen
        worlds.current().record_unknown_effect("torch.while_loop as a node of the graph")
    carried = carried_inputs
    while True:
        pred = cond_fn(*carried)
        with reading():
            if not pred:
                return carried
        carried = body_fn(*carried)


def _becomes_node(name: str) -> bool:
    """Return whether PyTorch, with the active modes, captures the call as a node and does not read the call's
    predicate."""
    world = worlds.active()
    entry = None if world is None else world.table.python(name)
    if world is None or entry is None:
        return False
    modes = [type(mode) for mode in _get_current_dispatch_mode_stack()]
    inside = frozenset(f"{kind.__module__}.{kind.__qualname__}" for kind in modes)
    call = Call((Argument("tensor"),), inside=inside, torch=torch.__version__)
    if any(hit.certain for hit in entry.effects_of(call)):
        return False
    if not world.is_capturing():
        raise RuntimeError(f"{name} becomes a node of a CUDA graph here, and no graph is being captured")
    return True


_ASKED = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_DEVICE_OF_WRAPPER = 7
"The position of the device among the arguments of `_make_wrapper_subclass`."
_GROUPING = "_group_tensors_by_device_and_dtype"
_DEFAULT = torch.Tensor.__torch_function__.__func__  # type: ignore[attr-defined]


def _overrides(value: Any) -> bool:
    """Return whether an argument's class has its own `__torch_function__`. Tensors and parameters have none."""
    own = getattr(type(value), "__torch_function__", None)
    if own is None or own is torch._C._disabled_torch_function_impl:
        return False
    return getattr(own, "__func__", None) is not _DEFAULT


def _asking(real: Callable[..., bool], variadic: bool) -> Callable[..., bool]:
    """Return a replacement of `has_torch_function` that looks only at arguments and ignores modes. The bodies of
    PyTorch's Python functions then run under `SimFunctionMode`."""

    def asked(*args: Any) -> bool:
        if worlds.active() is None:
            return real(*args)
        # If a subclass passes a call on to `super().__torch_function__`, the `__torch_function__` of subclasses is off
        # for that call.
        return torch._C._is_torch_function_enabled() and any(
            _overrides(value) for value in (args if variadic else args[0])
        )

    return asked


_REAL = {name: getattr(torch.overrides, name) for name in _ASKED}
_ASKING = {name: _asking(real, variadic=name != "has_torch_function") for name, real in _REAL.items()}
for _function in _ASKING.values():
    # TorchScript recognises these functions by identity.
    torch.jit._builtins._register_builtin(_function, "aten::has_torch_function")


def _replacements(world: World) -> Iterator[tuple[Any, str, Any]]:
    by_name: dict[str, tuple[Any, Any]] = {name: (_REAL[name], _ASKING[name]) for name in _ASKED}
    if hasattr(torch.utils._foreach_utils, _GROUPING):
        by_name[_GROUPING] = getattr(torch.utils._foreach_utils, _GROUPING), _grouped
    for spelled, module in list(sys.modules.items()):
        if spelled.startswith("torch"):
            for name, (real, value) in by_name.items():
                if getattr(module, "__dict__", {}).get(name) is real:
                    yield module, name, value
    for module, name, value in cuda.replacements(world):
        reseeds = module is torch.cuda and f"torch.cuda.{name}" in RESEEDS
        yield module, name, _reseeding(f"torch.cuda.{name}", value) if reseeds else value
    yield from foreign.replacements()
    yield from collectives.replacements()
    if hasattr(torch._C, "_get_accelerator"):
        yield torch._C, "_get_accelerator", lambda check=None: torch.device("cuda")
    yield torch, "load", _load
    yield torch.Tensor, "_make_wrapper_subclass", staticmethod(_wrapper(torch.Tensor._make_wrapper_subclass))
    yield (
        torch,
        "Generator",
        cuda.class_of("Generator", _generator, lambda value: isinstance(value, torch._C.Generator)),
    )
    yield torch.Tensor, "__repr__", simulated(torch.Tensor.__repr__, partial(_formatted, "torch.Tensor.__repr__"))
    yield torch.Tensor, "__format__", simulated(torch.Tensor.__format__, partial(_formatted, "torch.Tensor.__format__"))
    yield torch.Tensor, "__deepcopy__", simulated(torch.Tensor.__deepcopy__, _deepcopy)
    yield torch.Tensor, "__reduce_ex__", simulated(torch.Tensor.__reduce_ex__, _reduce)
    yield torch.Tensor, "record_stream", _record_stream
    yield torch.autograd, "backward", simulated(torch.autograd.backward, _placed)
    yield torch.autograd, "grad", simulated(torch.autograd.grad, _placed)
    hooks = torch.autograd.graph.saved_tensors_hooks
    yield hooks, "__init__", _under_modes(hooks.__init__, world)
    yield torch, "manual_seed", _reseeding("torch.manual_seed", torch.manual_seed)
    yield torch, "compile", _compile
    yield torch.nn.Module, "compile", lambda module, *args, **kwargs: _note_compile()
    yield torch, "cond", cond
    yield torch, "while_loop", while_loop
    yield torch.amp.autocast_mode.autocast, "__init__", _autocast(torch.amp.autocast_mode.autocast.__init__)
    for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype"):
        yield torch, name, _autocast_setting(getattr(torch, name))


def _reseeding(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def reseed(world: World, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        nested = world.here.scope.via in RESEEDS
        with world.via(name):
            if not nested:
                world.emit("random", name, how="reseed")
            return real(*args, **kwargs)

    return simulated(real, reseed)


def _generator(device: Any = "cpu") -> torch._C.Generator:
    is_simulated = torch.device(device).type == "cuda"
    return Generator(device_index(device), worlds.current()) if is_simulated else torch._C.Generator(device)


def _formatted(
    name: str, world: World, real: Callable[..., str], tensor: torch.Tensor, *args: Any, **kwargs: Any
) -> str:
    """Format a tensor on the host, because formatting switches off every mode and reads values."""
    index = max_device_index(tensor)
    if index == HOST:
        return real(tensor, *args, **kwargs)
    with world.via(name):
        if tensor.dim() == 0 and name.endswith("__format__"):
            return real(tensor, *args, **kwargs)
        world.emit("read", "aten::_local_scalar_dense")
        world.refuse(NOT_PERMITTED, "aten::_local_scalar_dense", "read")
    with world.unseen():
        shown = real(tensor.detach(), *args, **kwargs)
    return shown[:-1] + f", device='cuda:{index}')" if shown.endswith(")") else shown


def _deepcopy(world: World, real: Callable[..., Any], tensor: torch.Tensor, memo: dict[int, Any]) -> Any:
    if type(tensor) is not torch.Tensor or max_device_index(tensor) == HOST or not tensor.is_leaf:
        return real(tensor, memo)
    if id(tensor) not in memo:
        copied = tensor.detach().clone()
        copied.requires_grad_(tensor.requires_grad)
        if tensor.grad is not None:
            copied.grad = copy.deepcopy(tensor.grad, memo)
        memo[id(tensor)] = copied
    return memo[id(tensor)]


def _reduce(world: World, real: Callable[..., Any], tensor: torch.Tensor, proto: Any) -> Any:
    """Pickle a tensor as a copy on the host. The unpickled tensor is on the host."""
    index = max_device_index(tensor)
    if index != HOST:
        with world.via("torch.Tensor.__reduce_ex__"):
            world.emit("copy-to-host", "aten::_to_copy", None, pinned=False, non_blocking=False)
            if world.is_capturing(index):
                world.refuse(PAGEABLE, "aten::_to_copy", "copy-to-host")
    with world.unseen():
        return real(tensor, proto)


_torch_load = torch.load


def _wrapper(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of the function that makes a wrapper subclass's tensor. The replacement makes a CPU tensor
    with the device's tag and no bytes."""

    def make(*args: Any, **kwargs: Any) -> Any:
        world = worlds.active()
        device = args[_DEVICE_OF_WRAPPER] if len(args) > _DEVICE_OF_WRAPPER else kwargs.get("device")
        index = HOST if world is None or device is None else placed(device)
        if world is None or index == HOST:
            return real(*args, **kwargs)
        if len(args) > _DEVICE_OF_WRAPPER:
            args = (*args[:_DEVICE_OF_WRAPPER], torch.device("cpu"), *args[_DEVICE_OF_WRAPPER + 1 :])
        else:
            kwargs["device"] = torch.device("cpu")
        made = real(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            put_tag(made, index, world.ledgers[index], world.session)
        return made

    return make


def _load(file: Any, map_location: Any = None, **kwargs: Any) -> Any:
    """Handle `torch.load(..., map_location="cuda")`: load to the host, then move the tensors to the device."""
    device = map_location
    if worlds.active() is None or not isinstance(device, (str, torch.device)) or torch.device(device).type != "cuda":
        return _torch_load(file, map_location=map_location, **kwargs)
    return _moved(_torch_load(file, map_location="cpu", **kwargs), device)


def _moved(value: Any, device: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return type(value)((key, _moved(item, device)) for key, item in value.items())
    if isinstance(value, list):
        return [_moved(item, device) for item in value]
    return value


def _grouped(lists: list[list[Any]], with_indices: bool = False) -> dict[Any, Any]:
    """Group tensors by simulated device for the foreach optimizers. PyTorch's C++ code would take all of them for CPU
    tensors."""
    groups: dict[Any, tuple[list[list[Any]], list[int]]] = {}
    for position, first in enumerate(lists[0]):
        members, positions = groups.setdefault((first.device, first.dtype), ([[] for _ in lists], []))
        for member, values in zip(members, lists, strict=True):
            if values:
                member.append(values[position])
        positions.append(position)
    return {key: (members, positions if with_indices else []) for key, (members, positions) in groups.items()}


def _placed(world: World, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Put the zeros and ones that a backward pass makes on the device of the tensors from which the pass starts."""
    with world.within(Scope(via=world.here.scope.via, place=max_device_index((args, kwargs)))):
        return real(*args, **kwargs)


def _under_modes(real: Callable[..., None], world: World) -> Callable[..., None]:
    """Switch on modes in hooks on saved tensors. PyTorch calls these hooks inside an operation, where modes are off,
    and checkpointing reads devices in its hooks."""

    def wrapped(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(value: Any) -> Any:
            if worlds.active() is None or world.bypassed:
                return hook(value)
            with function_mode_on(world):
                return hook(value)

        return call

    def init(self: Any, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        real(self, wrapped(pack_hook), wrapped(unpack_hook))

    return init


def _note_compile() -> None:
    world = worlds.active()
    if world is not None:
        world.limits["torch.compile runs uncompiled on the simulated device"] = (
            "compiled code is made for a real GPU; its kernels, and what they allocate, cannot be predicted"
        )


def _compile(model: Any = None, **kwargs: Any) -> Any:
    _note_compile()
    return (lambda function: function) if model is None else model


def _record_stream(tensor: torch.Tensor, stream: Any) -> None:
    world = worlds.active()
    if world is not None and world.session is not None:
        with torch._C.DisableTorchFunction():
            world.session.reuse.defer(tensor)


_DEFAULT_DTYPE = torch.get_autocast_dtype


def _note_autocast(world: World) -> None:
    world.limits["autocast uses the CPU's list of operations"] = (
        "which operations autocast runs in lower precision differs between CPU and CUDA"
    )


def _autocast(real: Callable[..., None]) -> Callable[..., None]:
    """Use the CPU's autocast, because the tensors are on the CPU. The CPU's list of ops differs from CUDA's list."""

    def init(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        world = worlds.active()
        if world is None or device_type != "cuda":
            return real(self, device_type, *args, **kwargs)
        if kwargs.get("enabled", True):
            _note_autocast(world)
        dtype = args[0] if args else kwargs.get("dtype")
        others = {name: value for name, value in kwargs.items() if name != "dtype"}
        real(self, "cpu", _DEFAULT_DTYPE("cuda") if dtype is None else dtype, *args[1:], **others)

    return init


def _autocast_setting(real: Callable[..., Any]) -> Callable[..., Any]:
    """Read or change the CPU's setting in place of CUDA's. A call without a device type is about CUDA's setting."""

    def ask(*args: Any) -> Any:
        world = worlds.active()
        if world is None:
            return real(*args)
        device, *values = args if args and isinstance(args[0], str) else ("cuda", *args)
        if device == "cuda" and True in values:
            _note_autocast(world)
        if real.__name__ == "set_autocast_dtype":
            real(device, *values)  # blocks of autocast without a dtype use this dtype
        return real("cpu" if device == "cuda" else device, *values)

    return ask


def installed(world: World) -> AbstractContextManager[None]:
    """Install every replacement in this block."""
    return replaced(*_replacements(world))
