"""Records a step's operations with everything that a capture would fix: names, shapes, numbers, and the addresses of
lasting memory."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from graphsafe.capture.device.modes import OperationMode, outside_modes
from graphsafe.capture.device.structures import by_schema, is_valueless, is_written, memory_key, tensors_in

Aspect = Literal["operation", "number", "shape", "memory"]
_COPIES = ("aten.copy_", "aten._to_copy", "aten.copy.")
_MOST_ELEMENTS = 1_000
"Number of elements of a list that are compared; the rest is ignored."


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of an operator. `numbers`, `shapes` and `memory` have an entry for each argument, in order."""

    name: str
    numbers: tuple[str, ...]
    """Python numbers, text, the values of host tensors with one element, and the settings by which PyTorch chooses the
    kernel."""
    shapes: tuple[str, ...]
    memory: tuple[str, ...]
    "For a tensor over memory from before the steps: its path, and its offset in that memory."

    def differs(self, other: Operation) -> Aspect | None:
        """Return the first aspect in which the calls differ, or None."""
        if self.name != other.name:
            return "operation"
        if self.shapes != other.shapes:
            return "shape"
        if self.numbers != other.numbers:
            return "number"
        return "memory" if self.memory != other.memory else None

    def text(self, aspect: Aspect, other: Operation) -> str:
        """Describe this call in an aspect in which `other` differs."""
        if aspect == "operation":
            return self.name
        mine, theirs = self._of(aspect), other._of(aspect)
        differing = [one for one, another in zip(mine, theirs, strict=False) if one != another]
        return (differing[0] or "other memory") if differing else f"{len(mine)} arguments"

    def _of(self, aspect: Aspect) -> tuple[str, ...]:
        return {"number": self.numbers, "shape": self.shapes, "memory": self.memory}.get(aspect, ())


@dataclass(slots=True)
class _Arguments:
    """The arguments of one call, as far as they were looked at."""

    on_device: bool = False
    numbers: list[str] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    memory: list[str] = field(default_factory=list)


@functools.cache
def _name(func: Any) -> str:
    return str(func)


@functools.lru_cache(maxsize=4096)
def _shape_text(dtype: torch.dtype, shape: torch.Size) -> str:
    return f"{dtype} {list(shape)}"


class OperationsSeen(OperationMode):  # type: ignore[no-untyped-call]
    """Passes each operation of the device to `sink` while it runs, so that the sink can read the current stack."""

    def __init__(
        self, sink: Callable[[Operation], None], lasting: Mapping[int, str], on_device: Callable[[torch.Tensor], bool]
    ) -> None:
        """`lasting`: address of a storage that lives through all steps -> its path."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._sink = sink
        self._lasting = lasting
        self._on_device = on_device
        self.host_written: dict[int, torch.Tensor] = {}
        "Host tensors that operations of the device wrote, by address."

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        values = [*args, *(kwargs or {}).values()]
        seen, name = _Arguments(), _name(func)
        with torch._C.DisableTorchFunction():
            self._read(values, seen, copies=name.startswith(_COPIES))
        result = func(*args, **(kwargs or {}))
        if not seen.on_device:
            with torch._C.DisableTorchFunction():
                seen.on_device = any(self._on_device(tensor) for tensor in tensors_in(result))
        if seen.on_device:
            self._sink(Operation(name, (*seen.numbers, *settings_for(name)), tuple(seen.shapes), tuple(seen.memory)))
            if isinstance(func, torch._ops.OpOverload) and func._schema.is_mutable:
                self._note_written(func, args, kwargs or {})
        return result

    def _read(self, values: Sequence[Any], seen: _Arguments, copies: bool) -> None:
        for value in values[:_MOST_ELEMENTS]:
            if isinstance(value, torch.Tensor):
                on_device = self._on_device(value)
                seen.on_device = seen.on_device or on_device
                seen.shapes.append(_shape_text(value.dtype, value.shape))
                seen.memory.append(self._place(value))
                # Each replay copies from pinned memory again, while a kernel keeps the host value of its capture.
                if value.numel() == 1 and type(value) is torch.Tensor and not copies and self._is_readable(value):
                    with outside_modes():
                        seen.numbers.append(f"{value.item()} on the host")
            elif isinstance(value, (list, tuple)):
                self._read(value, seen, copies)
            elif isinstance(value, (bool, int, float, complex, str)):
                seen.numbers.append(repr(value))

    def _note_written(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        with torch._C.DisableTorchFunction():
            for argument, value in by_schema(func, args, kwargs):
                if is_written(argument) and isinstance(value, torch.Tensor) and self._is_readable(value):
                    with outside_modes():
                        self.host_written.setdefault(value.data_ptr(), value.detach())

    def _is_readable(self, tensor: torch.Tensor) -> bool:
        return not (self._on_device(tensor) or is_valueless(tensor))

    def _place(self, tensor: torch.Tensor) -> str:
        try:
            path = self._lasting.get(memory_key(tensor))
        except (RuntimeError, NotImplementedError):  # a wrapper subclass has no memory of its own
            return ""
        return "" if path is None else f"{path} from element {tensor.storage_offset()}"


_PRODUCTS = re.compile(r"aten\.(_?addmm|addmv|addbmm|baddbmm|bmm|mm|mv|matmul|linear)\b")
_CONVOLUTIONS = re.compile(r"aten\.(cudnn_)?_?(convolution|conv\d|thnn_conv|rnn|lstm|gru)|aten\._cudnn_rnn")


def settings_for(operation: str) -> Iterator[str]:
    """Yield the settings, with their present values, by which PyTorch chooses the kernel of an operation; a graph keeps
    the kernel of its capture. TF32 changes the results of matrix products by a thousandth (an H100, torch 2.11), and
    shows neither in the operation nor in its arguments."""
    for setting in _settings(operation):
        yield f"{setting}={_value(setting)}"


@functools.cache
def _settings(operation: str) -> tuple[str, ...]:
    if _PRODUCTS.match(operation):
        of_all = "torch.backends.cuda.matmul"
        half = (f"{of_all}.allow_{kind}_reduced_precision_reduction" for kind in ("fp16", "bf16"))
        return (_precision(of_all, of_all), *half)
    if _CONVOLUTIONS.match(operation):
        of_all = "torch.backends.cudnn"
        return (_precision(f"{of_all}.conv", of_all), f"{of_all}.enabled", f"{of_all}.deterministic")
    return ()


def _precision(own: str, of_all: str) -> str:
    """Return the setting of float32. From 2.9 on `allow_tf32` raises if a program has set `fp32_precision`, which
    follows `allow_tf32` (torch 2.13)."""
    try:
        _value(f"{own}.fp32_precision")
    except AttributeError:
        return f"{of_all}.allow_tf32"
    return f"{own}.fp32_precision"


def _value(setting: str) -> Any:
    return functools.reduce(getattr, setting.split(".")[1:], torch)
