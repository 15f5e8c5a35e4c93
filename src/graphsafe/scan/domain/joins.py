"""The join of two abstract values: one value that describes both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.numbers import NO_STATE, both_states, entry
from graphsafe.scan.domain.values import (
    NUMBER,
    STR,
    UNKNOWN,
    UNSET,
    Array,
    ClassValue,
    DeviceValue,
    Dict,
    DtypeValue,
    Function,
    Instance,
    NoneValue,
    Number,
    Sequence,
    SequenceKind,
    Tensor,
    Union,
    Unknown,
    Value,
    depends_on_step,
    holds_device,
    number,
    options,
)

MAX_OPTIONS = 8
MAX_FUNCTIONS = 24
"The largest number of functions or classes that a join keeps as separate options."
MAX_ITEMS = 64


def join_all(values: Iterable[Value]) -> Value:
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return UNKNOWN if result is None else result


def join(a: Value, b: Value) -> Value:
    """Return one value that describes both values. At run time, the value is one of the two, depending on the path
    taken."""
    if a is b:
        return a
    kind, other = type(a), type(b)
    if kind is other and a == b:
        return a
    if kind is Unknown or other is Unknown:
        return _join_unknown(a, b)
    merged = _join_alike(a, b)
    if merged is not None:
        return merged
    options: list[Value] = []
    for value in (*_options(a), *_options(b)):
        for i, known in enumerate(options):
            same = known is value or (type(known) is type(value) and known == value)
            alike = known if same else _join_alike(known, value)
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
    """Join two values, at least one of which is unknown. The result keeps the hints of both."""
    if type(b) is NoneValue:
        return a
    if type(a) is NoneValue:
        return b
    functions = tuple(dict.fromkeys(option for value in (a, b) for option in _options(value) if _can_be_called(option)))
    if functions and len(functions) <= MAX_FUNCTIONS:
        # If some of the options are functions, calls of these functions are followed. Calls of the other options have
        # unknown results.
        return Union((*functions, UNKNOWN))
    on_host = _is_kept(a) and _is_kept(b)
    state = reduce(both_states, (value.state for value in (a, b) if isinstance(value, (Number, Unknown))), NO_STATE)
    step, device = depends_on_step(a) or depends_on_step(b), holds_device(a) or holds_device(b)
    return Unknown(step, device, on_host, state=state, loaded=_is_loaded(a) and _is_loaded(b))


def _is_loaded(value: Value) -> bool:
    return type(value) is Unknown and value.loaded


def _is_kept(value: Value) -> bool:
    """Return whether a value is on the host, according to its known device or to its name."""
    return all(
        option.host if type(option) is Unknown else type(option) is Tensor and option.where == "host"
        for option in options(value)
    )


def _can_be_called(value: Value) -> bool:
    return type(value) is ClassValue or (type(value) is Function and value.node is None)


def _join_alike(a: Value, b: Value) -> Value | None:
    """Join two values of the same kind into one value of that kind; return None if this is impossible."""
    kind = type(a)
    if kind is not type(b):
        return None
    joined = _JOINS.get(kind)
    return joined(a, b) if joined is not None else None


def _join_instances(a: Instance, b: Instance) -> Instance | None:
    if a.ref != b.ref:
        return None
    given = a.given if a.given == b.given else None
    return Instance(a.ref, a.step or b.step, a.declared or b.declared, a.made and b.made, given)


def _join_devices(a: DeviceValue, b: DeviceValue) -> DeviceValue:
    return DeviceValue(a.where if a.where == b.where else "any", maybe_host=a.maybe_host or b.maybe_host)


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
        certain=a.certain and b.certain,
        maybe_host=a.maybe_host or b.maybe_host,
    )


def _join_numbers(a: Number, b: Number) -> Number:
    same = type(a.const) is type(b.const) and a.const == b.const
    return Number(
        const=a.const if same else UNSET,
        overridable_by=(a.overridable_by or b.overridable_by) if same else None,
        state=both_states(a.state, b.state),
        type=a.type if a.type == b.type else None,
    )


def _join_sequences(a: Sequence, b: Sequence) -> Sequence:
    held_by = a.held_by if a.held_by == b.held_by else None
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        items = tuple(map(join, a.items, b.items))
        return Sequence(a.kind, items, join(a.elem, b.elem), held_by, a.names if a.names == b.names else ())
    empty_a, empty_b = a.items == (), b.items == ()
    elem = b.elem if empty_a else a.elem if empty_b else join(a.elem, b.elem)
    return Sequence(a.kind, None, elem, held_by)


def _join_dicts(a: Dict, b: Dict) -> Dict:
    held_by = a.held_by if a.held_by == b.held_by else None
    if held_by is None and not a.items and type(a.elem) is Unknown:
        return b
    if held_by is None and not b.items and type(b.elem) is Unknown:
        return a
    left, right = dict(a.items), dict(b.items)
    merged = {
        key: join(left[key], right[key]) if key in left and key in right else _perhaps_kept(value, held_by, key)
        for key, value in {**left, **right}.items()
    }
    return Dict(tuple(merged.items())[:MAX_ITEMS], join(a.elem, b.elem), held_by)


def _perhaps_kept(value: Value, held_by: str | None, key: object) -> Value:
    """Return the value of a dict entry that only one branch assigns. If the other branch runs, the entry has its value
    from an earlier step."""
    if held_by is None or type(value) is not Number:
        return value
    return replace(value, state=both_states(value.state, (entry(held_by, key),)))


_JOINS: Mapping[type, Callable[[Any, Any], Value | None]] = {
    Tensor: _join_tensors,
    Number: _join_numbers,
    Sequence: _join_sequences,
    Dict: _join_dicts,
    DeviceValue: _join_devices,
    DtypeValue: lambda a, b: DtypeValue(None),
    Instance: _join_instances,
}


def sequence(kind: SequenceKind, items: Iterable[Value]) -> Sequence:
    listed = tuple(items)
    return Sequence(kind, listed if len(listed) <= MAX_ITEMS else None, join_all(listed))


def element_of(value: Value) -> Value:
    """Return the join of the items that a loop over the value gets."""
    found: list[Value] = []
    for option in options(value):
        if isinstance(option, Sequence):
            found.append(option.elem)
        elif isinstance(option, Tensor):
            ndim = option.ndim - 1 if option.ndim is not None and option.ndim > 0 else None
            # An element of a host tensor may be 0-d, and a 0-d tensor behaves like a number.
            sure = option.certain and not (option.where == "host" and option.ndim is None)
            found.append(replace(option, ndim=ndim, name=None, certain=sure))
        elif isinstance(option, Dict):
            keys = [number(key) for key, _ in option.items]
            found.append(join_all(keys) if keys else UNKNOWN)
        elif isinstance(option, Array):
            found.append(NUMBER)
        elif isinstance(option, Number):
            # An element of a string is a string. An element of the result of `tolist()` may be a row.
            found.append(STR if option.type == "str" else NUMBER)
        elif isinstance(option, Unknown):
            found.append(option)
        else:
            found.append(UNKNOWN)
    return join_all(found) if found else UNKNOWN
