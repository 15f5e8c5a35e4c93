"""Reads rows of the op table's file as checked entries. An unknown key or kind is an error, and the message names the
key or kind."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import fields
from typing import Any, Final, get_args

from graphsafe.optable.entries import (
    ArgumentKind,
    Basis,
    Condition,
    Effect,
    EffectKind,
    HostArguments,
    Op,
    Placement,
    Result,
    ResultCase,
    ResultKind,
    TensorHint,
)

ENTRY_KEYS: Final = {field.name for field in fields(Op)} | {"inside", "numbers", "sizes"}
"""The keys of a row: the fields of `Op`, and three more. `inside`: the aten operations that a dispatch mode sees
instead of this operation.

`numbers`: the parameters that take a Python number. `sizes`: the parameters that take a size, a bound or a count.
"""
EFFECT_KEYS: Final = {field.name for field in fields(Effect)} - {"only_if_certain"}


_WORDS: Final[Mapping[str, tuple[Any, ...]]] = {
    "placement": get_args(Placement),
    "ndim": (None, 0, 1, "size", "same", "one-more"),
    "tensor_hint": (None, *get_args(TensorHint)),
    "host_arguments": get_args(HostArguments),
    "basis": get_args(Basis),
}
"The values that some keys of an entry may have."


def entry_of(row: Mapping[str, Any]) -> Op:
    """Return the entry that a row of the file describes.

    Raises KeyError, TypeError or ValueError, whose message names the mistake.
    """
    _check_keys(row, ENTRY_KEYS)
    for key in _WORDS.keys() & row.keys():
        _one_of(row[key], _WORDS[key])
    plain = {key: _frozen(row[key]) for key in row if key not in ("inside", "numbers", "sizes")}
    reads: list[tuple[EffectKind, str, str, str]] = [
        ("reads-host", "GS101", "cast", param) for param in row.get("numbers", ())
    ]
    reads += [("dynamic-shape", "GS203", "size", param) for param in row.get("sizes", ())]
    effects = (*map(_effect, row.get("effects", ())), *(_read(*read) for read in reads))
    cases = tuple(ResultCase(_condition(case["when"]), _result(case["result"])) for case in row.get("cases", ()))
    return Op(**{**plain, "effects": effects, "cases": cases, "result": _result(row["result"])})


def _effect(row: Mapping[str, Any]) -> Effect:
    _check_keys(row, EFFECT_KEYS)
    _one_of(row["kind"], get_args(EffectKind))
    return Effect(**{**row, **{key: _condition(row[key]) for key in ("when", "unless") if key in row}})


def _read(kind: EffectKind, rule: str, how: str, param: str) -> Effect:
    """Return the effect of a call that passes a tensor for the parameter `param`, which takes a number."""
    return Effect(kind, rule, how, when=Condition(kinds={param: ("tensor", "tensors")}), only_if_certain=True)


def _condition(row: Mapping[str, Any]) -> Condition:
    _check_keys(row, {field.name for field in fields(Condition)})
    unknown = {kind for kinds in row.get("kinds", {}).values() for kind in kinds} - set(get_args(ArgumentKind))
    if unknown:
        raise ValueError(f"unknown kind of argument {sorted(unknown)[0]!r}")
    return Condition(**{key: _frozen(value) for key, value in row.items()})


def _result(row: str | Mapping[str, Any]) -> Result:
    """Read a result, which is written as its kind, as `reduction of mask`, or as a table."""
    if isinstance(row, str):
        kind, _, of = row.partition(" of ")
        return Result(_result_kind(kind), _result_kind(of or "tensor"))
    _check_keys(row, {field.name for field in fields(Result)})
    elements = tuple(map(_result_kind, row.get("elements", ())))
    return Result(_result_kind(row["kind"]), _result_kind(row.get("of", "tensor")), elements, row.get("ndim"))


def _result_kind(value: str) -> ResultKind:
    kind: ResultKind = _one_of(value, get_args(ResultKind))
    return kind


def _one_of(value: Any, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise ValueError(f"{value!r} is not one of {', '.join(map(str, allowed))}")
    return value


def _frozen(value: Any) -> Any:
    """Return the value with tuples in place of lists, because JSON has no tuples."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


def _check_keys(row: Mapping[str, Any], allowed: Set[str]) -> None:
    for key in row.keys() - allowed:
        raise ValueError(f"unknown key {key!r}")
