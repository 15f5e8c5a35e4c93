"""Runs operations in shapes mode, in which a large model is built and stepped without memory for its weights.

Floating-point values on the device are never computed. The values of large tensors are computed neither on the device
nor on the host. Small tensors of integers and booleans are computed as long as their inputs are known, so positions,
lengths and masks control the step as they would on a GPU. If Python reads an unknown value, it gets `answer`. A `while`
loop that asks very often sometimes gets the opposite answer, so that it ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.device.sim.effects import GETS, READ, NodeKind, Scope, written_by
from graphsafe.capture.device.sim.perform import perform
from graphsafe.capture.device.sim.tags import HOST, index_of
from graphsafe.capture.device.structures import drop_values, each_tensor, is_valueless, takes_device, tensors_in
from graphsafe.capture.shared.frames import Way, running_while

LARGEST = 1 << 16
"The values of a tensor are computed only if it has at most this many elements."
_MOST_FILLED = 1 << 24
"""If the shape of a result depends on values, the operation runs on made-up values, unless its arguments have more
elements than this."""
_TURNS = 64
"If a `while` loop has asked the same question this many times, every second answer is the opposite one."
_META = torch.device("meta")
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Shapes:
    """Runs the operations of one simulated device without values."""

    def __init__(self) -> None:
        self.answer = 1
        "The made-up value for everything unknown. 1 means True, one, and all elements of a mask; 0 means the opposite."
        self.asked = 0
        "How often Python has asked for an unknown value."
        self._turns: dict[Way, int] = {}
        """How often a `while` loop has asked each question. The memory of a frame is reused for the next call, so two
        calls of one function are counted together."""
        self.repeated: dict[tuple[Any, ...], Repeated] = {}
        """Earlier calls by their form (operation, shapes and other arguments). Layers and steps repeat the same forms,
        and the analysis of a new form is slow."""

    def perform(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], target: int) -> Any:
        """Run an operation whose result is on the device `target`. Call it with torch functions disabled."""
        inputs = tensors_in((args, dict(kwargs)))
        known = not any(is_valueless(tensor) for tensor in inputs)
        if func.is_view or torch.Tag.inplace_view in func.tags:
            return func(*args, **kwargs)
        if not known:
            return self._number(args[0]) if func._schema.name == READ else self._without(func, args, kwargs)
        if not inputs and takes_device(func):
            made = _made_without_values(func, args, kwargs, target)
            if made is not None:
                return made
        if target != HOST and kwargs.get("device") == _META:
            # PyTorch itself creates this host tensor for a tensor without values. An example is the mask of causal
            # attention.
            kwargs = {**kwargs, "device": torch.device("cpu")}
        before = {tensor.untyped_storage()._cdata for tensor in inputs if tensor.layout is torch.strided}
        return each_tensor(perform(func, args, kwargs), lambda tensor: _kept(tensor, target, before))

    def filled(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a host tensor filled with the made-up value. Raises RuntimeError for a large tensor."""
        answer = self._ask()
        if tensor.numel() > _MOST_FILLED:
            raise RuntimeError(f"the values of {tensor.numel()} elements are needed, but shapes mode computes none")
        return _filled(tensor, answer)

    def begin(self) -> None:
        """Forget which loops have asked, so that steps that begin in the same way get the same answers."""
        self._turns.clear()

    def _ask(self) -> int:
        """Count a question, and return the answer."""
        self.asked += 1
        way = running_while()
        if way is None:
            return self.answer
        turns = self._turns[way] = self._turns.get(way, 0) + 1
        return 1 - self.answer if turns >= _TURNS and turns % 2 == 0 else self.answer

    def _number(self, tensor: torch.Tensor) -> bool | int | float | complex:
        answer = self._ask()
        if tensor.dtype == torch.bool:
            return bool(answer)
        if tensor.dtype.is_complex:
            return complex(answer)
        return float(answer) if tensor.dtype.is_floating_point else answer

    def _without(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return results without values. If the shapes of the results depend on values, run the operation on made-up
        values."""
        if func._schema.name in GETS:
            args = [args[0], self._selected(args[1]), *args[2:]]
        try:
            result = _on_stand_ins(func, args, kwargs, _alias)
        except (RuntimeError, NotImplementedError, ValueError, IndexError):
            many = sum(tensor.numel() for tensor in tensors_in((args, dict(kwargs))))
            if many > _MOST_FILLED:
                raise
            answer = self._ask()
            result = _on_stand_ins(
                func, args, kwargs, lambda one: _filled(one, answer) if is_valueless(one) else one.clone()
            )
        for tensor in written_by(func, None, args, kwargs):
            drop_values(tensor)
        return result

    def _selected(self, indices: Sequence[Any]) -> list[Any]:
        """Return the indices. A mask of unknown values is replaced by the indices of all its elements, or of none."""
        found: list[Any] = []
        for index in indices:
            if index is None or index.dtype not in (torch.bool, torch.uint8) or not is_valueless(index):
                found.append(index)
                continue
            selected = torch.empty(index.numel() * self._ask(), dtype=torch.int64, device=_META)
            found += [selected] * index.dim()
        return found


@dataclass(frozen=True, slots=True)
class Repeated:
    """A call that has no effect on the host and writes no argument. Another call of the same form does the same."""

    device: int
    kind: NodeKind | None
    results: Any
    "Tensors of the same form as the call's results, in new memory. None for views, which PyTorch makes."

    def run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return func(*args, **kwargs) if self.results is None else each_tensor(self.results, _like)


def repeated(device: int, kind: NodeKind | None, inputs: Sequence[torch.Tensor], result: Any) -> Repeated | None:
    """Return how to run a call again. Return None if the result depends on more than the form of the call."""
    before = {tensor.untyped_storage()._cdata for tensor in inputs}
    results = tensors_in(result)
    if not all(tensor.layout is torch.strided for tensor in results):
        return None
    over_inputs = {tensor.untyped_storage()._cdata in before for tensor in results}
    if kind is None and over_inputs == {True}:
        return Repeated(device, None, None)
    from_form = not inputs or any(map(is_valueless, inputs))
    if kind is not None and over_inputs == {False} and from_form and all(map(is_valueless, results)):
        return Repeated(device, kind, each_tensor(result, _like))
    return None


def form_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], scope: Scope) -> tuple[Any, ...] | None:
    """Return everything that determines a call's results and effects. Return None if the call writes values, reads
    values or draws random numbers."""
    if not _is_repeatable(func):
        return None
    asks = scope.via, scope.place, scope.explicit, scope.literal, scope.generator is None
    try:
        form = (func, asks, torch.get_default_dtype(), _form(args), _form(kwargs))
        hash(form)
    except (TypeError, RuntimeError):
        return None
    return form


@functools.cache
def _is_repeatable(func: Any) -> bool:
    schema = func._schema
    if func.namespace != "aten" or schema.is_mutable or schema.name in GETS or schema.name == READ:
        return False
    if torch.Tag.nondeterministic_seeded in func.tags or torch.Tag.inplace_view in func.tags:
        return False
    return bool(func.is_view) or all(one.alias_info is None for one in (*schema.arguments, *schema.returns))


def _form(value: Any) -> Any:
    """Return a value with each tensor replaced by its form. Raises TypeError if an object's form does not determine the
    call's result."""
    if isinstance(value, torch.Tensor):
        if type(value) not in _PLAIN or value.layout is not torch.strided or value.dtype.is_complex:
            raise TypeError("not a plain tensor")
        unknown = is_valueless(value)
        on_meta = value.is_meta
        if on_meta and not unknown:
            raise TypeError("not on the simulated device")
        return value.shape, value.stride(), value.dtype, index_of(value), unknown, on_meta
    if isinstance(value, (list, tuple)):
        return tuple([_form(item) for item in value])
    if isinstance(value, dict):
        return tuple([(name, _form(item)) for name, item in sorted(value.items())])
    return type(value), value  # the type is needed because 1, 1.0 and True are equal


def with_tensors(index: Any) -> Any:
    """Return an index with host tensors in place of the lists, ranges and arrays of numbers in it."""
    if isinstance(index, tuple):
        return tuple(with_tensors(part) for part in index)
    is_array = hasattr(index, "__array__") and not isinstance(index, torch.Tensor) and bool(getattr(index, "ndim", 0))
    if not is_array and not (isinstance(index, (list, range)) and all(isinstance(item, int) for item in index)):
        return index
    with torch._C.DisableTorchFunction():
        return torch.as_tensor(index, dtype=None if len(index) else torch.int64, device="cpu")


def _filled(tensor: torch.Tensor, answer: int) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        return tensor
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return made.fill_(answer) if made.numel() else made


def _like(tensor: torch.Tensor) -> torch.Tensor:
    """Return a new tensor of the same form, without values."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_META)
    drop_values(made)
    return made


def _made_without_values(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], target: int) -> Any:
    """If a call makes a new tensor without reading another one, and the values need not be computed, return the result.
    Otherwise return None."""
    try:
        made = func(*args, **{**kwargs, "device": _META})
    except (RuntimeError, NotImplementedError):
        return None
    if not isinstance(made, torch.Tensor) or not _loses_values(made, target):
        return None
    drop_values(made)
    return made


def _loses_values(tensor: torch.Tensor, target: int) -> bool:
    of_device = target != HOST and (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
    return tensor.layout is torch.strided and (of_device or tensor.numel() > LARGEST)


def _kept(tensor: torch.Tensor, target: int, before: set[int]) -> torch.Tensor:
    """Return a result, without its values if they need not be computed. A result that shares an argument's memory is
    not changed."""
    if not _loses_values(tensor, target) or tensor.untyped_storage()._cdata in before:
        return tensor
    return _like(tensor)


def _on_stand_ins(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], stand_in: Callable[[torch.Tensor], torch.Tensor]
) -> Any:
    """Run an operation with each tensor replaced by the result of `stand_in`. Return the result without values. If the
    result is one of the arguments, return that argument itself."""
    originals: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def swapped(tensor: torch.Tensor) -> torch.Tensor:
        other = stand_in(tensor)
        originals[id(other)] = other, tensor
        return other

    def back(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in originals:
            return originals[id(tensor)][1]
        if tensor.layout is torch.strided and not tensor.is_meta:
            return _like(tensor)
        drop_values(tensor)
        return tensor

    named = {name: each_tensor(value, swapped) for name, value in kwargs.items()}
    on_meta = stand_in is _alias
    if named.get("device") is not None and on_meta:
        named["device"] = _META
    return each_tensor(func(*(each_tensor(value, swapped) for value in args), **named), back)


def _alias(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_meta or tensor.layout is not torch.strided:
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_META)
