"""Records a step's operations with everything that a capture would fix: names, shapes, numbers and lasting addresses.
The list of operations is the path that the step takes through its Python code. Also finds the memory that depends on
some operations of a path."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from graphsafe.capture.child.lines.kernel_settings import settings_for
from graphsafe.capture.device.modes import OperationMode, outside_modes
from graphsafe.capture.device.structures import by_schema, is_valueless, is_written, memory_key, tensors_in
from graphsafe.capture.shared.places import memory_name

Aspect = Literal["operation", "number", "shape", "memory"]
_COPIES = ("aten.copy_", "aten._to_copy", "aten.copy.")
_MOST_ELEMENTS = 1_000
"At most this many elements of a list are compared."
NUMBER = re.compile(r"-?(\d|inf\b|nan\b|True\b|False\b)")
"Matches the beginning of those entries of `Operation.numbers` that are numbers and not strings."


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of an operator. `numbers`, `shapes` and `memory` have their entries in the order of the arguments."""

    name: str
    numbers: tuple[str, ...]
    "Python's numbers and strings, host tensors with one element, and the settings that choose the kernel."
    shapes: tuple[str, ...]
    memory: tuple[str, ...]
    """For a tensor whose memory is older than the steps: its path, and its offset in that memory. Memory on the host
    has an entry only if it is the source of a copy, because a replay reads that source again."""
    view: tuple[str, ...] = ()
    """For a view: the layout and memory of its results. A view runs nothing on the device, but later calls use its
    results."""

    def differs(self, other: Operation) -> Aspect | None:
        """Return the first aspect in which the two calls differ, or None."""
        if self.name != other.name:
            return "operation"
        if self.view and self.view == other.view:
            return None
        if self.shapes != other.shapes:
            return "shape"
        if self.numbers != other.numbers:
            return "number"
        return "memory" if self.memory != other.memory else None

    def text(self, aspect: Aspect, other: Operation) -> str:
        """Describe this call in the aspect in which it differs from `other`."""
        if aspect == "operation":
            return self.name
        mine, theirs = self._of(aspect), other._of(aspect)
        differing = [one for one, another in zip(mine, theirs, strict=False) if one != another]
        return (differing[0] or "other memory") if differing else f"{len(mine)} arguments"

    def _of(self, aspect: Aspect) -> tuple[str, ...]:
        return {"number": self.numbers, "shape": self.shapes, "memory": self.memory}.get(aspect, ())


@dataclass(slots=True)
class _Arguments:
    """The arguments of one call, collected so far."""

    on_device: bool = False
    addresses: set[int] = field(default_factory=set)
    numbers: list[str] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    memory: list[str] = field(default_factory=list)


@functools.cache
def _name(func: Any) -> str:
    return str(func)


def _layout(tensor: torch.Tensor) -> str:
    try:
        return _layout_text(tensor.dtype, tensor.shape, tensor.stride(), tensor.is_conj(), tensor.is_neg())
    except (RuntimeError, NotImplementedError):  # a sparse tensor has no strides
        return f"{tensor.dtype} {list(tensor.shape)}"


@functools.lru_cache(maxsize=4096)
def _layout_text(dtype: torch.dtype, shape: torch.Size, strides: tuple[int, ...], is_conj: bool, is_neg: bool) -> str:
    """Return the dtype, the shape, and everything else that determines which elements of the memory a kernel reads, and
    how."""
    text = f"{dtype} {list(shape)}"
    dense = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != dense:
            text += f" with strides {list(strides)}"
            break
        dense *= size
    return text + (" conjugated" if is_conj else "") + (" negated" if is_neg else "")


def address_of(tensor: torch.Tensor) -> int:
    """Return the key of a tensor's memory; 0 for a wrapper subclass, which has no memory of its own."""
    try:
        return memory_key(tensor)
    except (RuntimeError, NotImplementedError):
        return 0


@dataclass(slots=True)
class Unnamed:
    """Memory on the device that has no name: a recorded step used it but did not make it, and no path of state leads to
    it. Such memory belongs to a tensor in a queue, in a frame, in C++ or in the cache of autocast."""

    is_recording: bool = True
    _names: dict[int, str] = field(default_factory=dict)
    _alive: list[torch.Tensor] = field(default_factory=list)
    "The tensors, kept alive so that no other tensor gets their addresses."

    def name_of(self, address: int, tensor: torch.Tensor) -> str:
        if self.is_recording and address not in self._names:
            self._alive.append(tensor.detach())
            self._names[address] = f"tensor {len(self._alive)} of those without a name in the state"
        return self._names.get(address, "a tensor that was made later")


class OperationsSeen(OperationMode):  # type: ignore[no-untyped-call]
    """Passes each operation of the device to `sink` after it has run. At that time, the user's stack is still the one
    from which the operation was called."""

    def __init__(
        self,
        sink: Callable[[Operation], None],
        lasting: Mapping[int, str],
        on_device: Callable[[torch.Tensor], bool],
        source: str,
        unnamed: Unnamed,
    ) -> None:
        """`lasting` maps addresses to paths, for all storages that live through all steps. `source` names the state of
        the default generator."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._sink = sink
        self._lasting = lasting
        self._on_device = on_device
        self._source = source
        self._unnamed = unnamed
        self._made: set[int] = set()
        "Addresses of memory that operations of this step have made."
        self.host_written: dict[int, torch.Tensor] = {}
        "Host tensors that operations of the device wrote, by address."
        self.copied: torch.Tensor | None = None
        "The host tensor that the current operation copies to the device."
        self.state_written: list[str] = []
        "The lasting tensors on the device that the current operation writes."

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        values = [*args, *(kwargs or {}).values()]
        seen, name = _Arguments(), _name(func)
        self.copied, self.state_written = None, []
        with torch._C.DisableTorchFunction():
            self._read(values, seen, copies=name.startswith(_COPIES))
        result = func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            results = [tensor for tensor in tensors_in(result) if self._on_device(tensor)]
            self._made |= {address_of(tensor) for tensor in results} - seen.addresses
        seen.on_device = seen.on_device or bool(results)
        if seen.on_device:
            view: tuple[str, ...] = ()
            if isinstance(func, torch._ops.OpOverload):
                if func.is_view:
                    with torch._C.DisableTorchFunction():
                        view = tuple(f"{_layout(tensor)} {self._place(tensor)}" for tensor in tensors_in(result))
                elif func._schema.is_mutable:
                    self._note_written(func, args, kwargs or {})
            numbers = (*seen.numbers, *settings_for(name), *self._random_state(func, values))
            self._sink(Operation(name, numbers, tuple(seen.shapes), tuple(seen.memory), view))
        return result

    def _random_state(self, func: Any, values: Sequence[Any]) -> tuple[str, ...]:
        is_random = isinstance(func, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in func.tags
        return (self._source,) if is_random and not any(isinstance(one, torch._C.Generator) for one in values) else ()

    def _read(self, values: Sequence[Any], seen: _Arguments, copies: bool) -> None:
        for value in values[:_MOST_ELEMENTS]:
            if isinstance(value, torch.Tensor):
                on_device = self._on_device(value)
                seen.on_device = seen.on_device or on_device
                seen.shapes.append(_layout(value))
                seen.addresses.add(address_of(value))
                seen.memory.append(self._place(value) if on_device or copies else "")
                # A replay copies from host memory again, but a kernel keeps the host value that it was given at
                # capture.
                if copies and type(value) is torch.Tensor and self._is_readable(value):
                    self.copied = value.detach()
                elif value.numel() == 1 and type(value) is torch.Tensor and self._is_readable(value):
                    with outside_modes():
                        seen.numbers.append(f"{value.item()} on the host")
            elif isinstance(value, (list, tuple)):
                self._read(value, seen, copies)
            elif isinstance(value, (bool, int, float, complex, str)):
                seen.numbers.append(repr(value))

    def _note_written(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        with torch._C.DisableTorchFunction():
            for argument, value in by_schema(func, args, kwargs):
                if not is_written(argument):
                    continue
                if isinstance(value, torch.Tensor) and self._is_readable(value):
                    with outside_modes():
                        self.host_written.setdefault(value.data_ptr(), value.detach())
                addresses = map(address_of, filter(self._on_device, tensors_in(value)))
                self.state_written += [self._lasting[one] for one in addresses if one in self._lasting]

    def _is_readable(self, tensor: torch.Tensor) -> bool:
        return not (self._on_device(tensor) or is_valueless(tensor))

    def _place(self, tensor: torch.Tensor) -> str:
        address = address_of(tensor)
        if not address:
            return ""
        path = self._lasting.get(address)
        if path is None and address not in self._made and self._on_device(tensor):
            path = self._unnamed.name_of(address, tensor)
        offset = tensor.storage_offset()
        return memory_name(path, offset) if path is not None else f"element {offset} of its memory" * bool(offset)


def calls_of(operations: Iterable[Operation], varying: Collection[int]) -> list[str]:
    """Return each operation as a string that is the same in every process. The strings leave out memory locations and
    all arguments of type `str`. For operations whose indices are in `varying`, the strings leave out numbers too."""
    return [
        repr((one.name, () if at in varying else [n for n in one.numbers if NUMBER.match(n)], one.shapes))
        for at, one in enumerate(operations)
    ]


def texts_of(path: Iterable[Operation]) -> Set[str]:
    """Return the strings among the arguments, such as settings of kernels and sources of random numbers. The simulated
    device computes the same with other settings, so its rounds do not test settings."""
    return {one for operation in path for one in operation.numbers if not NUMBER.match(one)}


def name_of_path(calls: Iterable[str]) -> str:
    """Return a short name for a path. `calls` are the path's operations, as strings from `calls_of`."""
    return hashlib.blake2b("\n".join(calls).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class _Flow:
    """The flow of values through one operation. Memory is given by its address."""

    at: int | None
    "The operation's index on the path; None for an operation of the host."
    reads: Set[int]
    made: Set[int]
    written: Set[int]


class PathSeen(OperationsSeen):  # type: ignore[no-untyped-call]
    """Records the operations of a step, and the flow of values between them. No tensor is kept alive."""

    def __init__(self, on_device: Callable[[torch.Tensor], bool]) -> None:
        self.operations: list[Operation] = []
        self._flows: list[_Flow] = []
        super().__init__(self.operations.append, {}, on_device, "", Unnamed(is_recording=False))

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        before = len(self.operations)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        with torch._C.DisableTorchFunction():
            reads = _memory((args, kwargs))
            made = _memory(result) - reads
            at = before if len(self.operations) > before else None
            self._flows.append(_Flow(at, reads, made, _written(func, args, kwargs or {}, reads)))
        return result

    def written(self) -> Set[int]:
        """Return the memory that the step wrote in place."""
        return frozenset[int]().union(*(flow.written for flow in self._flows))

    def reached_from(self, part: range) -> Set[int]:
        """Return the memory whose values depend on the operations with these indices."""
        found: set[int] = set()
        for flow in self._flows:
            if flow.at in part or not found.isdisjoint(flow.reads):
                found |= flow.made | flow.written
            else:
                found -= flow.made  # this memory was freed and is used again
        return found


def _memory(values: Any) -> set[int]:
    return {address_of(tensor) for tensor in tensors_in(values)}


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], reads: Set[int]) -> Set[int]:
    if not isinstance(func, torch._ops.OpOverload):
        return reads
    if not func._schema.is_mutable:
        return frozenset()
    return _memory([value for argument, value in by_schema(func, args, kwargs) if is_written(argument)])


def unlike(left: Sequence[object], right: Sequence[object]) -> tuple[range, range]:
    """Return the parts of two paths that lie between their common beginning and their common end."""
    least = min(len(left), len(right))
    begin = next((at for at in range(least) if left[at] != right[at]), least)
    end = next((at for at in range(least - begin) if left[-1 - at] != right[-1 - at]), least - begin)
    return range(begin, len(left) - end), range(begin, len(right) - end)
