"""What a value of hot code can be, as far as the source shows it.

A value is never guessed into existence: what is not known is `UNKNOWN`, and what may be one of several things is a
`Union` of them. `step` marks what derives from the step's own inputs: it changes from replay to replay, and so must not
be kept from warm-up.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Literal

from graphsafe.report.model import Confidence
from graphsafe.scan.frozen import dataclass

Where = Literal["device", "host", "any"]
Dtype = Literal["bool", "int", "float"]
SequenceKind = Literal["list", "tuple", "set", "size", "iterator"]


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET = _Unset()
"A host value that is not known before the code runs."


@dataclass(frozen=True, slots=True)
class Unknown:
    step: bool = False
    device: bool = False
    "May hold device tensors: it came out of a call that was given some."
    host: bool = False
    "Its name says that the host keeps it."


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
    "Built from Python values on the host (`torch.tensor([1, 2])`)."
    name: str | None = None
    "How the code calls it, for messages: `lengths`, `self.cache`."
    attr: str | None = None
    "The attribute whose storage this is, as `module:Class.attr`; kept through views."
    fresh: bool = False
    "Born in this step, so that keeping it means keeping a new address."
    sure: bool = True
    "False where only a name or a use says that it is a tensor of the device."
    doubtful: bool = False
    "A tensor that engines often keep on the host, going by its name; so is what comes of it alone."


@dataclass(frozen=True, slots=True)
class Number:
    """A value that the host knows: int, float, bool, str, bytes, or an enum; `const` where the source shows it."""

    const: Any = UNSET
    soft: str | None = None
    "Why `const` may be another one at run time: `default` of a parameter, `environment`, `attribute`, `platform`."
    state: str | None = None
    "The host attribute or global it was computed from, as `module:Class.attr`."
    type: Literal["int", "float", "bool", "str"] | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """A numpy array or scalar: on the host whatever is done with it."""


@dataclass(frozen=True, slots=True)
class DeviceValue:
    where: Where
    literal: str | None = None
    doubtful: bool = False
    "The device of a doubtful tensor."


@dataclass(frozen=True, slots=True)
class DtypeValue:
    dtype: Dtype | None


@dataclass(frozen=True, slots=True)
class Handle:
    """Something of the runtime or a library with methods of its own: stream, event, generator, graph, logger."""

    kind: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Lib:
    """A name of a library that the project does not hold, by its dotted path."""

    name: str


@dataclass(frozen=True, slots=True)
class ProjectModule:
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class ClassValue:
    ref: str
    "`path::Qual.name`."


@dataclass(frozen=True, slots=True)
class Instance:
    ref: str
    step: bool = False
    declared: bool = False
    "Known by an annotation only: it may be of a subclass."


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the project. `closure` is the environment of a nested one; identity decides equality there."""

    ref: str
    bound: Value | None = None
    partial: tuple[Value, ...] = ()
    partial_keywords: tuple[tuple[str, Value], ...] = ()
    node: ast.AST | None = field(default=None, compare=False, repr=False)
    closure: Mapping[str, Value] | None = field(default=None, compare=False, repr=False)
    closure_id: int = 0


@dataclass(frozen=True, slots=True)
class Sequence:
    kind: SequenceKind
    items: tuple[Value, ...] | None
    "`None` where the length is not known."
    elem: Value
    "The join of the items."
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
    "What constant keys hold."
    elem: Value
    "The join of all values."
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
"Values that a container may hold in all, nested ones included: loops and recursion nest without an end."


def _weight(value: Value) -> int:
    kind = type(value)
    if kind is Sequence or kind is Dict:
        return value.weight  # type: ignore[union-attr]
    if kind is Union:
        return sum(map(_weight, value.options))  # type: ignore[union-attr,arg-type]
    return 1


def _lighten(container: Sequence | Dict) -> int:
    """Keep of the elements what they have in common, or else no more than where they come from; the new weight."""
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
    | Handle
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
UNKNOWN_STEP = Unknown(step=True)
NONE = NoneValue()
NUMBER = Number()
INT = Number(type="int")
FLOAT = Number(type="float")
BOOL = Number(type="bool")
STR = Number(type="str")
ON_CUDA = Number(True, soft="platform", type="bool")
"What a step of a graph hears about tensors of which nothing else is known."
ARRAY = Array()
TENSOR = Tensor()
MASK = Tensor(dtype="bool")
SIZE = Sequence("size", None, INT)
MAX_OPTIONS = 8
MAX_FUNCTIONS = 24
"Functions of one table."
MAX_ITEMS = 64


def number(const: Any) -> Number:
    kind = type(const).__name__
    return Number(const, type=kind if kind in ("int", "float", "bool", "str") else None)  # type: ignore[arg-type]


def sequence(kind: SequenceKind, items: Iterable[Value]) -> Sequence:
    listed = tuple(items)
    return Sequence(kind, listed if len(listed) <= MAX_ITEMS else None, join_all(listed))


def of_elements(kind: SequenceKind, elem: Value) -> Sequence:
    return Sequence(kind, None, elem)


def join_all(values: Iterable[Value]) -> Value:
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return UNKNOWN if result is None else result


def join(a: Value, b: Value) -> Value:
    """What holds of a value that is `a` on one way and `b` on another."""
    if a is b or a == b:
        return a
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return _join_unknown(a, b)
    merged = _join_alike(a, b)
    if merged is not None:
        return merged
    options: list[Value] = []
    for value in (*_options(a), *_options(b)):
        for i, known in enumerate(options):
            alike = known if known == value else _join_alike(known, value)
            if alike is not None:
                options[i] = alike
                break
        else:
            options.append(value)
    if len(options) == 1:
        return options[0]
    if len(options) > (MAX_FUNCTIONS if all(map(_can_be_called, options)) else MAX_OPTIONS):
        return Unknown(any(map(depends_on_step, options)), any(map(holds_device, options)))
    return Union(tuple(options))


def _join_unknown(a: Value, b: Value) -> Value:
    """Nothing more than one of the two is known of it; the other one would be a guess."""
    if isinstance(b, NoneValue):
        return a
    if isinstance(a, NoneValue):
        return b
    functions = tuple(dict.fromkeys(option for value in (a, b) for option in _options(value) if _can_be_called(option)))
    if functions and len(functions) <= MAX_FUNCTIONS:
        # What may be called is read; what else it may be costs no more than not knowing the result.
        return Union((*functions, UNKNOWN))
    on_host = _is_kept(a) and _is_kept(b)
    return Unknown(depends_on_step(a) or depends_on_step(b), holds_device(a) or holds_device(b), on_host)


def _is_kept(value: Value) -> bool:
    """Whether the host keeps a value, as far as a place or a name says so."""
    return all(
        option.host if type(option) is Unknown else type(option) is Tensor and option.where == "host"
        for option in options(value)
    )


def _can_be_called(value: Value) -> bool:
    return isinstance(value, Function) and value.node is None


def _join_alike(a: Value, b: Value) -> Value | None:
    """The join of two values of one kind that has more to say than both; None for others."""
    kind = type(a)
    if kind is not type(b):
        return None
    joined = _JOINS.get(kind)
    return joined(a, b) if joined is not None else None


def _join_instances(a: Instance, b: Instance) -> Instance | None:
    return Instance(a.ref, True, a.declared or b.declared) if a.ref == b.ref else None


def _join_devices(a: DeviceValue, b: DeviceValue) -> DeviceValue:
    return DeviceValue(a.where if a.where == b.where else "any", doubtful=a.doubtful or b.doubtful)


def _options(value: Value) -> tuple[Value, ...]:
    return value.options if type(value) is Union else (value,)


def _join_tensors(a: Tensor, b: Tensor) -> Tensor:
    return Tensor(
        where=a.where if a.where == b.where else "any",
        dtype=a.dtype if a.dtype == b.dtype else None,
        ndim=a.ndim if a.ndim == b.ndim else None,
        pinned=a.pinned and b.pinned,
        step=a.step or b.step,
        literal=a.literal and b.literal,
        name=a.name if a.name == b.name else None,
        attr=a.attr if a.attr == b.attr else None,
        fresh=a.fresh and b.fresh,
        sure=a.sure and b.sure,
        doubtful=a.doubtful or b.doubtful,
    )


def _join_numbers(a: Number, b: Number) -> Number:
    same = type(a.const) is type(b.const) and a.const == b.const
    return Number(
        const=a.const if same else UNSET,
        soft=(a.soft or b.soft) if same else None,
        state=a.state or b.state,
        type=a.type if a.type == b.type else None,
    )


def _join_sequences(a: Sequence, b: Sequence) -> Sequence:
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        items = tuple(map(join, a.items, b.items))
        return Sequence(a.kind, items, join(a.elem, b.elem))
    empty_a, empty_b = a.items == (), b.items == ()
    elem = b.elem if empty_a else a.elem if empty_b else join(a.elem, b.elem)
    return Sequence(a.kind, None, elem)


def _join_dicts(a: Dict, b: Dict) -> Dict:
    if not a.items and type(a.elem) is Unknown:
        return b
    if not b.items and type(b.elem) is Unknown:
        return a
    merged = dict(a.items)
    for key, value in b.items:
        merged[key] = join(merged[key], value) if key in merged else value
    return Dict(tuple(merged.items())[:MAX_ITEMS], join(a.elem, b.elem))


_JOINS: Mapping[type, Callable[[Any, Any], Value | None]] = {
    Tensor: _join_tensors,
    Number: _join_numbers,
    Sequence: _join_sequences,
    Dict: _join_dicts,
    DeviceValue: _join_devices,
    DtypeValue: lambda a, b: DtypeValue(None),
    Instance: _join_instances,
}


def options(value: Value) -> tuple[Value, ...]:
    """The things that a value may be, `None` aside."""
    if type(value) is Union:
        return tuple(option for option in value.options if type(option) is not NoneValue)
    return () if type(value) is NoneValue else (value,)


def without_none(value: Value) -> Value:
    if type(value) is not Union:
        return value
    left = options(value)
    return left[0] if len(left) == 1 else Union(left)


def may_be_none(value: Value) -> bool | None:
    """True: it is None. False: it is not. None: not known."""
    if type(value) is NoneValue:
        return True
    if type(value) is Unknown:
        return None
    if type(value) is Union:
        return None if any(type(option) in (NoneValue, Unknown) for option in value.options) else False
    return False


def as_tensor(value: Value) -> tuple[Tensor | None, bool]:
    """The tensor that a value is or may be, and whether that is certain.

    None beside it is no doubt, nor is a number of the host: on some way it is the tensor, and that way fails.
    """
    if type(value) is Tensor:
        return value, True
    if type(value) is Union:
        tensor = next((option for option in value.options if type(option) is Tensor), None)
        return tensor, all(type(option) in (Tensor, Number, NoneValue) for option in value.options)
    return None, False


def confidence_of(tensor: Tensor, certain: bool) -> Confidence:
    """How sure a finding about a tensor can be; `certain` where the value is nothing else."""
    return "likely" if certain and tensor.sure and not tensor.doubtful else "possible"


def together(tensors: Iterable[Tensor]) -> Where:
    """Where an operation on all of these happens: torch mixes devices only where a host tensor is 0-d."""
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


def all_doubtful(tensors: Iterable[Tensor]) -> bool:
    """Whether every tensor that may be on the device is a doubtful one."""
    doubts = [tensor.doubtful for tensor in tensors if tensor.where != "host"]
    return bool(doubts) and all(doubts)


def depends_on_step(value: Value, depth: int = 0) -> bool:
    if isinstance(value, (Tensor, Unknown, Instance)):
        return value.step
    if depth > 4:
        return False
    if isinstance(value, Sequence):
        return depends_on_step(value.elem, depth + 1)
    if isinstance(value, Dict):
        return depends_on_step(value.elem, depth + 1) or any(depends_on_step(v, depth + 1) for _, v in value.items)
    if isinstance(value, Union):
        return any(depends_on_step(option, depth + 1) for option in value.options)
    return False


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


def named(value: Value, name: str) -> Value:
    """The same value under the name by which the code knows it now."""
    if type(value) is Tensor and value.name != name:
        return replace(value, name=name)
    return value


def describe(value: Value) -> str:
    """In words for a message: `` `lengths`, a device tensor ``."""
    tensor, _ = as_tensor(value)
    if tensor is None:
        return "a value of the device" if type(value) is Unknown else "a host value"
    what = {"bool": "a boolean ", "int": "an integer ", "float": "a ", None: "a "}[tensor.dtype]
    where = {"device": "device tensor", "host": "host tensor", "any": "tensor"}[tensor.where]
    if what == "an integer " or what == "a boolean " or where:
        text = f"{what}{where}"
    return f"`{tensor.name}`, {text}" if tensor.name else text
