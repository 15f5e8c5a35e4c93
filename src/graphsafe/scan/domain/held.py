"""The state that outlives a step. Numbers and containers carry the name of the attribute or global that holds them."""

from __future__ import annotations

from functools import reduce

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.numbers import NO_STATE, both_states, entry
from graphsafe.scan.domain.values import Dict, Instance, Number, Sequence, Tensor, Union, Unknown, Value, options

PARAM_GROUPS = "param_groups"
"The attribute in which an optimizer keeps its hyperparameters, such as the learning rate."
FROZEN_OPTIONS = frozenset(("lr", "weight_decay", "momentum", "betas", "eps"))
"The names of hyperparameters of optimizers. A capture freezes their values."
RATES = "<rates>"
"The name that stands for these hyperparameters of all optimizers together."
MAX_NESTED = 3
"Elements get separate names only in containers that are nested less deeply than this."


def held_in(value: Value, key: str, depth: int = 0) -> Value:
    """Mark a value as held by `key`. Its elements, and changes of the value, then count as state with that name."""
    if type(value) is Number:
        return Number(value.const, value.overridable_by or "attribute", (key,), value.type)
    if type(value) is Union:
        return join_all(held_in(option, key, depth) for option in value.options)
    if type(value) is not Sequence and type(value) is not Dict:
        return value
    if depth >= MAX_NESTED:
        return replace(value, held_by=key)
    elem = held_in(value.elem, key, depth + 1)
    if type(value) is Sequence:
        items = value.items and tuple(held_in(item, key, depth + 1) for item in value.items)
        return replace(value, items=items, elem=elem, held_by=key)
    assert type(value) is Dict
    named = tuple((name, held_in(item, entry(key, name), depth + 1)) for name, item in value.items)
    return replace(value, items=named, elem=elem, held_by=key)


def weights(ref: str) -> str:
    """Return the name that stands for all parameters and buffers of a module class together. If `ref` is empty, the
    name stands for the parameters and buffers of all modules."""
    return f"{ref}.<weights>"


def moments(kind: str) -> str:
    """Return the name that stands for the state of all optimizers of one kind together."""
    return f"torch.optim.{kind}.<state>"


def not_held(container: Value) -> Value:
    """Return a container without the mark of the attribute or global that holds it. Any other value is unchanged."""
    if isinstance(container, (Sequence, Dict)) and container.held_by is not None:
        return replace(container, held_by=None)
    return join_all(map(not_held, container.options)) if type(container) is Union else container


def kept(value: Value) -> Value:
    """Return the value that a cache or table has stored. If it is an object from this step, the object now outlives the
    step."""
    if type(value) is Instance and value.made:
        return replace(value, made=False)
    return join_all(map(kept, value.options)) if type(value) is Union else value


def state_of(value: Value) -> tuple[str, ...]:
    """Return the attributes and globals from which a number or a container's elements were computed."""
    if type(value) is Number or type(value) is Unknown:
        return value.state
    if type(value) is Union:
        return reduce(both_states, map(state_of, value.options), NO_STATE)
    return state_of(value.elem) if type(value) is Sequence and value.held_by is None else ()


def as_declared(declared: Value, value: Unknown) -> Value:
    """Return the value that an annotation promises, in place of the unknown value `value`. It is marked with the state
    from which `value` was computed."""
    return replace(declared, state=value.state) if type(declared) is Number and value.state else declared


def is_free(value: Value) -> bool:
    """Return whether a value is certainly free of state: it is not state of an attribute or a global, and contains no
    such state."""
    for option in options(value):
        if type(option) is Tensor:
            if option.attr is not None and not option.fresh:
                return False
        elif type(option) is Sequence or type(option) is Dict:
            if option.held_by is not None or state_of(option):
                return False
        elif type(option) is not Number or state_of(option):
            return False
    return True
