"""The function mode of the simulated device. If code asks for a tensor's device, the mode returns the simulated device.
If code requests a device, the mode tags the tensor.

PyTorch's Python functions call the active mode before their first line and then run their body without it. In that
body, `x.device` would return the true device. So the mode is hidden from these functions
(`substitutes.has_torch_function`), and only C functions call the mode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, resolve_name

from graphsafe.capture.device.protocol import STOPS
from graphsafe.capture.device.sim import placement
from graphsafe.capture.device.sim.effects import Scope, unseen_stop
from graphsafe.capture.device.sim.generators import Generator
from graphsafe.capture.device.sim.legality import PAGEABLE, of_hidden_wait
from graphsafe.capture.device.sim.shapes import with_tensors
from graphsafe.capture.device.sim.streams import device_index
from graphsafe.capture.device.sim.tags import HOST, index_of, is_pinned, max_device_index, pin, put_tag
from graphsafe.capture.device.sim.world import World
from graphsafe.capture.device.structures import is_valueless, tensors_in

__tracebackhide__ = True  # pytest reads this: the traceback of a failure ends at the user's line


CPU = torch.device("cpu")
Handler = Callable[["SimFunctionMode", Any, Sequence[Any], dict[str, Any]], Any]


class SimFunctionMode(TorchFunctionMode):
    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if self.world.bypassed:
            return func(*args, **kwargs)
        handler = HANDLERS.get(func)
        if handler is not None:
            return handler(self, func, args, kwargs)
        return self.call(func, args, kwargs)

    def call(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], literal: bool = False) -> Any:
        """Run `func` with the CPU in place of its device argument. The device becomes part of the scope."""
        world = self.world
        place, explicit = HOST, False
        named = kwargs.get("device")
        if isinstance(func, torch._ops.OpOverload) and world.here.scope.place != HOST and named in (None, CPU):
            # This is an operation of a backward pass, called by another mode. Its scope already has the device.
            return func(*args, **kwargs)
        if named is not None:
            place, explicit = placed(named), True
            if place == HOST and torch.device(named).type != "cpu":
                return func(*args, **kwargs)
            kwargs["device"] = CPU
        elif func in INHERITS_NOTHING:
            literal = literal or _holds_list(args[1])
            if world.shapes is not None:
                # From a list, PyTorch would make a tensor on the meta device, where nothing shows that the list is
                # copied.
                args = args[0], with_tensors(args[1]), *args[2:]
        else:
            place = HOST if func in placement.constructors_from_numbers() else _first_index(args, kwargs)
            if (
                place == HOST
                and func in placement.constructors()
                and (default := placement.default_device()) is not None
            ):
                place, explicit = placed(default), True
                kwargs["device"] = CPU if default.type in ("cuda", "cpu") else default
        generator = kwargs.get("generator")
        simulated = generator if isinstance(generator, Generator) else None
        if simulated is not None:
            kwargs["generator"] = None
        pinned = kwargs.pop("pin_memory", False)
        before = world.here.scope
        world.here.scope = Scope(
            via=before.via or name_of(func),
            place=place,
            explicit=explicit,
            generator=simulated,
            literal=literal or before.literal,
        )
        seen_before = world.refusals_seen
        try:
            result = func(*args, **kwargs)
            if world.refusals_seen == seen_before and place != HOST:
                self._ask_the_table(func, args, kwargs)
        finally:
            world.here.scope = before
        if pinned:
            with torch._C.DisableTorchFunction():
                for tensor in tensors_in(result):
                    self.pin(func, tensor)
        return result

    def pin(self, func: Any, tensor: torch.Tensor) -> None:
        pin(tensor, self.world.session)
        with self.world.via(name_of(func)):
            self.world.emit("allocation", "aten::_pin_memory", tensor.nbytes, pinned=True)

    def _ask_the_table(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        world = self.world
        with torch._C.DisableTorchFunction():
            name = name_of(func)
            effect = unseen_stop(func, name, args, kwargs, world.table)
            if effect is None:
                return
            kind = STOPS[effect.kind]
            world.emit(kind, name)
            world.refuse(of_hidden_wait(effect), name, kind)

    def readable(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a host tensor that Python may read. Values that were not computed are made up."""
        shapes = self.world.shapes
        with torch._C.DisableTorchFunction():
            return tensor if shapes is None or not is_valueless(tensor) else shapes.filled(tensor)

    def move(
        self,
        func: Any,
        tensor: torch.Tensor,
        place: int,
        *,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
        copy: bool = False,
        memory_format: torch.memory_format | None = None,
        literal: bool = False,
    ) -> torch.Tensor:
        """Perform `tensor.to(...)`. As in PyTorch, the result is the tensor itself if nothing changes."""
        if max_device_index(tensor) == place and not copy and (dtype is None or dtype == tensor.dtype):
            return tensor
        world = self.world
        literal = literal or world.here.scope.literal
        scope = Scope(world.here.scope.via or name_of(func), place, explicit=True, literal=literal)
        # A lazy parameter without a shape accepts `to`, but not the operation `_to_copy` by itself.
        plain = torch._C.DisableTorchFunctionSubclass() if is_lazy(tensor) else nullcontext()
        with world.within(scope), plain:
            moved: torch.Tensor = torch.ops.aten._to_copy.default(
                tensor, dtype=dtype, non_blocking=non_blocking, memory_format=memory_format
            )
        return moved


@contextmanager
def function_mode_on(world: World) -> Iterator[None]:
    """Switch on the mode in this block, for Python code that an operation calls. PyTorch switches off modes for such
    code."""
    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    if any(isinstance(mode, SimFunctionMode) for mode in modes):
        yield
        return
    with world.within(Scope(via=world.here.scope.via)), SimFunctionMode(world):
        yield


def placed(device: Any) -> int:
    """Return the index of the device that an argument names. Return `HOST` for the CPU and for kinds of devices that
    are not simulated."""
    if isinstance(device, int) and not isinstance(device, bool):
        return device_index(device)
    named = torch.device(device)
    return device_index(named) if named.type == "cuda" else HOST


@functools.cache
def name_of(func: Any) -> str:
    """Return the function's name in the op table: `torch.Tensor.item`, `torch.zeros`, `torch.nn.functional.one_hot`."""
    name = resolve_name(func)
    return name or f"torch.{getattr(func, '__name__', func)}"


def _holds_list(index: Any) -> bool:
    return isinstance(index, list) or (isinstance(index, tuple) and any(isinstance(part, list) for part in index))


def _first_index(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    with torch._C.DisableTorchFunction():
        found = map(index_of, tensors_in((args, dict(kwargs))))
        return next((index for index in found if index != HOST), HOST)


def _to(self: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Handle `to`. The arguments of `to` are a device, a dtype or another tensor, then `non_blocking` and `copy`."""
    tensor, *rest = args
    options = dict(kwargs)
    device: Any = options.pop("device", None)
    other = options.pop("other", None)
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    if rest and (rest[0] is None or (isinstance(rest[0], (torch.device, str, int)) and not isinstance(rest[0], bool))):
        device = rest.pop(0)
    if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
        options["dtype"] = rest.pop(0)
    for name in ("non_blocking", "copy"):
        if rest:
            options[name] = rest.pop(0)
    place = max_device_index(tensor if other is None else other)
    if other is not None:
        options["dtype"] = other.dtype
    if device is not None:
        if torch.device(device).type not in ("cuda", "cpu"):
            return func(*args, **kwargs)
        place = placed(device)
    return self.move(func, tensor, place, **options)


def _cuda(self: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    device = rest[0] if rest else kwargs.get("device")
    non_blocking = rest[1] if len(rest) > 1 else kwargs.get("non_blocking", False)
    return self.move(func, tensor, device_index(device), non_blocking=non_blocking)


def _type(self: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Handle `x.type()`, whose result contains the device, and `x.type("torch.cuda.FloatTensor")`, which moves the
    tensor."""
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    index = max_device_index(args[0])
    if wanted is None:
        name: str = func(args[0])
        return name.replace("torch.", "torch.cuda.", 1) if index != HOST else name
    if isinstance(wanted, torch.dtype):
        return self.move(func, args[0], index, dtype=wanted)
    text = wanted if isinstance(wanted, str) else f"{wanted.__module__}.{wanted.__name__}"
    empty = torch.empty(0).type(text.replace("torch.cuda.", "torch."))
    return self.move(func, args[0], self.world.here.device if ".cuda." in text else HOST, dtype=empty.dtype)


def _type_as(self: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    tensor, other = args[0], args[1] if len(args) > 1 else kwargs["other"]
    return self.move(func, tensor, max_device_index(other), dtype=other.dtype)


def _literal(self: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Handle `torch.tensor(values, device=...)` and similar functions. These functions copy from pageable memory, which
    makes the host wait."""
    device = kwargs.get("device")
    method = func == torch.Tensor.new_tensor
    if device is None and not method:
        device = placement.default_device()
    values = args[1:] if method else args
    data = values[0] if values else kwargs.get("data", kwargs.get("obj"))
    here = max_device_index(data) if isinstance(data, torch.Tensor) else HOST
    inherited = max_device_index(args[0]) if method and device is None else HOST
    if isinstance(data, torch.Tensor) and device is None and not method:
        return self.call(func, args, kwargs)
    place = inherited if device is None else placed(device)
    if device is not None and place == HOST and torch.device(device).type != "cpu":
        return func(*args, **kwargs)
    if here == place == HOST:
        return self.call(func, args, kwargs)
    kwargs["device"] = CPU
    requires_grad = kwargs.pop("requires_grad", False)
    pinned = kwargs.pop("pin_memory", False)
    if isinstance(data, torch.Tensor):
        dtype = kwargs.get("dtype")
        made = self.move(func, data.detach(), place, dtype=dtype, copy=func is not torch.as_tensor)
    else:
        scope = Scope(via=self.world.here.scope.via or name_of(func))
        with self.world.within(scope):
            made = func(*args, **kwargs)
            with torch._C.DisableTorchFunction():
                if pinned:
                    pin(made, self.world.session)
        made = self.move(func, made, place, literal=True)
    return made.requires_grad_() if requires_grad else made


def _sparse(self: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Handle `torch.sparse_coo_tensor(..., device=...)` and similar functions. These functions first copy their
    arguments to the device."""
    device = kwargs.get("device") or placement.default_device()
    place = HOST if device is None else placed(device)

    def there(data: Any) -> Any:
        return self.move(func, data, place) if isinstance(data, torch.Tensor) else data

    if place != HOST and any(isinstance(data, torch.Tensor) for data in (*args, *kwargs.values())):
        args = [there(data) for data in args]
        kwargs = {name: there(data) for name, data in kwargs.items()} | {"device": CPU}
    return self.call(func, args, kwargs)


def _numpy(self: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    index = max_device_index(args[0])
    if index == HOST:
        return func(self.readable(args[0]), *args[1:], **kwargs)
    if kwargs.get("force"):
        return func(self.readable(self.move(func, args[0].detach(), HOST)), **kwargs)
    raise TypeError(
        f"can't convert cuda:{index} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
        "first."
    )


def _tolist(self: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Handle `x.tolist()`, which copies to pageable memory. A 0-d tensor is read in the same way as by `item`."""
    tensor = args[0]
    with torch._C.DisableTorchFunction():
        index, scalar = index_of(tensor), tensor.dim() == 0
    if index == HOST:
        return func(self.readable(tensor))
    world = self.world
    if scalar:
        return self.call(torch.Tensor.item, args, {})
    with world.via(name_of(func)):
        world.emit("read", "aten::_to_copy", None, pinned=False, non_blocking=False)
        if world.is_capturing(index) and world.session is not None:
            world.session.admit()
            world.refuse(PAGEABLE, "aten::_to_copy", "read")
    with world.unseen():
        return func(self.readable(tensor))


def _pin_memory(self: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    with torch._C.DisableTorchFunction():
        tensor = args[0]
        if index_of(tensor) != HOST:
            raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
        if is_pinned(tensor):
            return tensor
        copied = tensor.clone()
        self.pin(func, copied)
        return copied


def _one_hot(self: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Handle `one_hot`. If the number of classes is given, a GPU does not check the range of values, but the
    CPU does."""
    tensor = args[0] if args else kwargs["tensor"]
    classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    index = max_device_index(tensor)
    if index == HOST or classes <= 0:
        return self.call(func, args, kwargs)
    with self.world.within(Scope(self.world.here.scope.via or name_of(func), index)), torch._C.DisableTorchFunction():
        made = torch.zeros((*tensor.shape, classes), dtype=torch.int64)
        return made.scatter_(-1, tensor.unsqueeze(-1), 1)


def _from_legacy(self: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Handle `x.new(...)`, which returns uninitialised memory or a copy of Python values."""
    index = max_device_index(args[0])
    made = self.call(func, args, kwargs)
    if index != HOST:
        if len(args) > 1 and isinstance(args[1], (list, tuple)):
            return self.move(func, made, index, literal=True)
        with torch._C.DisableTorchFunction():
            put_tag(made, index, self.world.ledgers[index], self.world.session)
    return made


_OF_TENSORS: Any = torch.Tensor
HANDLERS: dict[Any, Handler] = {
    torch.Tensor.device.__get__: placement.device,
    _OF_TENSORS.is_cuda.__get__: lambda self, func, args, kwargs: index_of(args[0]) != HOST,
    _OF_TENSORS.is_cpu.__get__: lambda self, func, args, kwargs: (
        index_of(args[0]) == HOST and (func(*args) or is_valueless(args[0]))
    ),
    # The user's code sees True only for tensors that it put on the meta device itself.
    _OF_TENSORS.is_meta.__get__: lambda self, func, args, kwargs: func(*args) and not is_valueless(args[0]),
    torch.Tensor.get_device: lambda self, func, args, kwargs: index_of(args[0]),
    torch.Tensor.to: _to,
    torch.Tensor.cuda: _cuda,
    torch.Tensor.cpu: lambda self, func, args, kwargs: self.move(func, args[0], HOST),
    torch.Tensor.type: _type,
    torch.Tensor.type_as: _type_as,
    torch.tensor: _literal,
    torch.as_tensor: _literal,
    torch.asarray: _literal,
    torch.Tensor.new_tensor: _literal,
    torch.sparse_coo_tensor: _sparse,
    torch.sparse_csr_tensor: _sparse,
    torch.sparse_csc_tensor: _sparse,
    torch.sparse_compressed_tensor: _sparse,
    torch.Tensor.new: _from_legacy,
    torch.Tensor.numpy: _numpy,
    torch.Tensor.tolist: _tolist,
    torch.Tensor.pin_memory: _pin_memory,
    torch.Tensor.is_pinned: lambda self, func, args, kwargs: is_pinned(args[0]),
    torch.nn.functional.one_hot: _one_hot,
}

INHERITS_NOTHING = frozenset({torch.Tensor.__setitem__, torch.Tensor.__getitem__})
"""Functions that turn Python values (a list of indices, a number to store) into host tensors, and copy these to the
device."""
