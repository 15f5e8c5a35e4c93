"""Abstract values: the possible values of an expression in hot code, as far as the source shows them.

A value that is not known is `UNKNOWN`, and a value that may be one of several is a `Union` of them. `step` marks values
that derive from the step's own inputs: they change from replay to replay, so no value from a warm-up may be reused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.frozen import dataclass, replace

Where = Literal["device", "host", "any"]
Dtype = Literal["bool", "int", "float"]
SequenceKind = Literal["list", "tuple", "set", "size", "iterator"]


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        """Return the name of the only instance. Pickling stores this name, so each process uses its own instance."""
        return "UNSET"


UNSET = _Unset()
"Marks a host value that is not known before the code runs."


@dataclass(frozen=True, slots=True)
class Unknown:
    step: bool = False
    device: bool = False
    "Whether the value may hold device tensors, because a call with device tensors returned it."
    host: bool = False
    "Whether the value's name says that the value stays on the host."
    compared: bool = False
    "Whether a comparison, perhaps of device tensors, gave this value. If it is used like a tensor, it is a mask."
    state: tuple[str, ...] = ()
    "The state from which the value was computed. An unknown value may be a number, so it carries state as numbers do."
    loaded: bool = False
    "Whether a data loader gave the value. Its tensors are on the host until they are moved."


@dataclass(frozen=True, slots=True)
class NoneValue:
    pass


@dataclass(frozen=True, slots=True)
class Tensor:
    where: Where = "device"
    dtype: Dtype | None = None
    ndim: int | None = None
    pinned: bool = False
    step: bool = False
    literal: bool = False
    "Whether the tensor was built from Python values on the host (`torch.tensor([1, 2])`)."
    name: str | None = None
    "The name in the code, for messages: `lengths`, `self.cache`."
    attr: str | None = None
    "The attribute whose memory this tensor uses, as `path::Class.attr`. Views of it have the same `attr`."
    fresh: bool = False
    "Whether the tensor was made in this step. If an attribute stores it, the attribute has a new address in each step."
    certain: bool = True
    "Whether there is evidence for a device tensor besides the value's name and its use."
    maybe_host: bool = False
    "Whether engines often keep tensors of this name on the host. A result has this mark if all operands have it."
    maybe_pinned: bool = False
    "Whether only a name or an annotation shows that the tensor is on the host. Its memory may then be pinned."


@dataclass(frozen=True, slots=True)
class Number:
    """A value that the host knows: int, float, bool, str, bytes or an enum. `const` is its value, if known."""

    const: Any = UNSET
    overridable_by: str | None = None
    "The reason why `const` may differ at run time: `default` (of an argument), `environment`, `attribute`, `platform`."
    state: tuple[str, ...] = ()
    "The host attributes and globals from which the number was computed, as `path::Class.attr`."
    type: Literal["int", "float", "bool", "str"] | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """A numpy array or scalar, which is always on the host."""


@dataclass(frozen=True, slots=True)
class DeviceValue:
    where: Where
    literal: str | None = None
    maybe_host: bool = False
    "Whether this is the device of a tensor that may be on the host."


@dataclass(frozen=True, slots=True)
class DtypeValue:
    dtype: Dtype | None


@dataclass(frozen=True, slots=True)
class RuntimeObject:
    """An object with its own methods, of the runtime or of a library: stream, event, generator, graph, logger."""

    kind: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Lib:
    """An object of a library: a dotted name, with the keywords of `partial` or the tensor of a bound method."""

    name: str
    keywords: tuple[tuple[str, Value], ...] = ()
    bound: Tensor | None = None


@dataclass(frozen=True, slots=True)
class ProjectModule:
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class ClassValue:
    ref: str
    "`path::Qual.name`."
    declared: bool = False
    "Whether only an annotation such as `type[Base]` shows the class. The value may then be a subclass."


@dataclass(frozen=True, slots=True)
class Passed:
    """The arguments that a call passes, as a hashable object."""

    positional: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Instance:
    ref: str
    step: bool = False
    declared: bool = False
    "Whether only an annotation shows the class. The object may then be of a subclass."
    made: bool = False
    """Whether the object was made in this step and does not outlive it. Writes to such an object are not state."""
    given: Passed | None = None
    "The constructor's arguments, if known; objects with different arguments have separate attributes."


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the project. `closure` is a nested function's environment, compared by identity."""

    ref: str
    bound: Value | None = None
    partial: tuple[Value, ...] = ()
    partial_keywords: tuple[tuple[str, Value], ...] = ()
    node: ast.AST | None = field(default=None, compare=False, repr=False)
    closure: Mapping[str, Value] | None = field(default=None, compare=False, repr=False)
    closure_id: int = field(default=0, repr=False)
    cached: bool = False
    "Whether the function has a decorator such as `functools.cache`."
    plain: bool = False
    "Whether the value stands for the function without its decorators."
    kept: bool = False
    "Whether the function is a closure that was made before the step. Its environment is then state."

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle a function without the code and the environment of a nested function."""
        names = self.ref, self.bound, self.partial, self.partial_keywords
        return Function, (*names, None, None, self.closure_id, self.cached, self.plain, self.kept)


@dataclass(frozen=True, slots=True)
class Sequence:
    kind: SequenceKind
    items: tuple[Value, ...] | None
    "`None` if the length is not known."
    elem: Value
    "The join of the items."
    held_by: str | None = None
    "The name of the attribute or global that holds the container (held.py). Tensors have such a name in `attr`."
    names: tuple[str, ...] = ()
    "The names of the items of a named tuple."
    weight: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        weight = 1 + _weight(self.elem) + (sum(map(_weight, self.items)) if self.items is not None else 0)
        if weight > MAX_WEIGHT:
            object.__setattr__(self, "items", None)
            weight = _lighten(self)
        object.__setattr__(self, "weight", weight)


@dataclass(frozen=True, slots=True)
class Dict:
    items: tuple[tuple[Any, Value], ...]
    "Constant keys with their values."
    elem: Value
    "The join of all values."
    held_by: str | None = None
    weight: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        weight = 1 + _weight(self.elem) + sum(_weight(value) for _, value in self.items)
        if weight > MAX_WEIGHT:
            object.__setattr__(self, "items", ())
            weight = _lighten(self)
        object.__setattr__(self, "weight", weight)


@dataclass(frozen=True, slots=True)
class Union:
    options: tuple[Value, ...]


MAX_WEIGHT = 512
"The largest number of values in a container, at any depth. Without a limit, a loop could nest containers forever."


def _weight(value: Value) -> int:
    kind = type(value)
    if kind is Sequence or kind is Dict:
        return value.weight  # type: ignore[union-attr]
    if kind is Union:
        return sum(map(_weight, value.options))  # type: ignore[union-attr,arg-type]
    return 1


def _lighten(container: Sequence | Dict) -> int:
    """Keep only the join of the elements, or an unknown value if the join is too large. Return the new weight."""
    elem = container.elem
    if _weight(elem) > MAX_WEIGHT // 2:
        object.__setattr__(container, "elem", Unknown(depends_on_step(elem), holds_device(elem)))
        return 2
    return 1 + _weight(elem)


Value = (
    Unknown
    | NoneValue
    | Tensor
    | Number
    | Array
    | DeviceValue
    | DtypeValue
    | RuntimeObject
    | Lib
    | ProjectModule
    | ClassValue
    | Instance
    | Function
    | Sequence
    | Dict
    | Union
)

UNKNOWN = Unknown()
NONE = NoneValue()
NUMBER = Number()
INT = Number(type="int")
FLOAT = Number(type="float")
BOOL = Number(type="bool")
STR = Number(type="str")
ON_CUDA = Number(True, overridable_by="platform", type="bool")
"The result of `x.is_cuda` for an unknown tensor, because a step for a graph runs on CUDA."
ARRAY = Array()
SIZE = Sequence("size", None, INT)

_NUMBERS: Mapping[type, Literal["int", "float", "bool", "str"]] = {int: "int", float: "float", bool: "bool", str: "str"}


def number(const: Any) -> Number:
    return Number(const, type=_NUMBERS.get(type(const)))


def of_elements(kind: SequenceKind, elem: Value) -> Sequence:
    return Sequence(kind, None, elem)


def options(value: Value) -> tuple[Value, ...]:
    """Return the alternatives of a value, except `None`."""
    if type(value) is Union:
        return tuple(option for option in value.options if type(option) is not NoneValue)
    return () if type(value) is NoneValue else (value,)


def without_none(value: Value) -> Value:
    if type(value) is not Union:
        return value
    left = options(value)
    return left[0] if len(left) == 1 else Union(left)


def may_be_none(value: Value) -> bool | None:
    """Return True for the value None, False for a value that is never None, and None if this is not known."""
    if type(value) is NoneValue:
        return True
    if type(value) is Unknown:
        return None
    if type(value) is Union:
        return None if any(type(option) in (NoneValue, Unknown) for option in value.options) else False
    return False


def as_tensor(value: Value) -> tuple[Tensor | None, bool]:
    """Return the tensor that a value is or may be, and whether the value certainly is this tensor on some path.

    The value certainly is the tensor on some path if all its other alternatives are None or numbers.
    """
    if type(value) is Tensor:
        return value, True
    if type(value) is Union:
        tensor = next((option for option in value.options if type(option) is Tensor), None)
        return tensor, all(type(option) in (Tensor, Number, NoneValue) for option in value.options)
    return None, False


def confidence_of(tensor: Tensor, certain: bool) -> Confidence:
    """Return the confidence of a finding about a tensor. `certain` means that the value cannot be anything else."""
    return "likely" if certain and tensor.certain and not tensor.maybe_host else "possible"


def together(tensors: Iterable[Tensor]) -> Where:
    """Return the device of an operation on these tensors. torch mixes devices only if the host tensors are 0-d."""
    where: Where = "host"
    on_host = False
    for tensor in tensors:
        if tensor.where == "device":
            return "device"
        if tensor.where == "any":
            where = "any"
        elif tensor.ndim != 0 and not (tensor.ndim is None and tensor.literal):
            on_host = True
    return "host" if on_host else where


def all_maybe_host(tensors: Iterable[Tensor]) -> bool:
    """Return whether some tensors may be on the device, but the name of each such tensor suggests the host."""
    hints = [tensor.maybe_host for tensor in tensors if tensor.where != "host"]
    return bool(hints) and all(hints)


def depends_on_step(value: Value, depth: int = 0) -> bool:
    if isinstance(value, (Tensor, Unknown, Instance)):
        return value.step
    if isinstance(value, (Number, NoneValue)) or depth > 4:
        return False
    if isinstance(value, Sequence):
        return depends_on_step(value.elem, depth + 1)
    if isinstance(value, Dict):
        return depends_on_step(value.elem, depth + 1) or any(depends_on_step(v, depth + 1) for _, v in value.items)
    return isinstance(value, Union) and any(depends_on_step(option, depth + 1) for option in value.options)


def holds_device(value: Value, depth: int = 0) -> bool:
    if isinstance(value, Tensor):
        return value.where != "host"
    if isinstance(value, Unknown):
        return value.device
    if depth > 4:
        return False
    if isinstance(value, (Sequence, Dict)):
        return holds_device(value.elem, depth + 1)
    if isinstance(value, Union):
        return any(holds_device(option, depth + 1) for option in value.options)
    return False


def is_for_host(value: Value, depth: int = 0) -> bool:
    """Return whether a value consists only of numbers and strings. None is ignored."""
    if isinstance(value, (Number, Array)):
        return True
    if depth <= 4 and isinstance(value, (Sequence, Dict)):
        return is_for_host(value.elem, depth + 1)
    return isinstance(value, Union) and all(is_for_host(option, depth + 1) for option in options(value))


def named(value: Value, name: str) -> Value:
    """Return the same value under the name that the code now uses for it."""
    return replace(value, name=name) if type(value) is Tensor and value.name != name else value


def describe(value: Value) -> str:
    """Describe a value for a message: `` `lengths`, a device tensor ``."""
    tensor, _ = as_tensor(value)
    if tensor is None:
        return "a value of the device" if type(value) is Unknown else "a host value"
    what = {"bool": "a boolean ", "int": "an integer ", "float": "a ", None: "a "}[tensor.dtype]
    where = {"device": "device tensor", "host": "host tensor", "any": "tensor"}[tensor.where]
    return f"`{tensor.name}`, {what}{where}" if tensor.name else f"{what}{where}"
