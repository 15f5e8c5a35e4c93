"""Reads rows of the op table's file as checked entries: an unknown key or kind is an error that says so."""

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

ENTRY_KEYS: Final = {field.name for field in fields(Op)} | {"inside", "numbers"}
"""`inside` names the aten operations that a dispatch mode sees instead of this operation; `numbers` are parameters that
take a Python number."""
EFFECT_KEYS: Final = {field.name for field in fields(Effect)} - {"only_if_certain"}


def entry_of(row: Mapping[str, Any]) -> Op:
    """Return the entry that a row of the file describes. Raises `ValueError` with the mistake."""
    _check_keys(row, ENTRY_KEYS)
    return Op(
        aten=row["aten"],
        overload=row["overload"],
        python=tuple(row["python"]),
        params=tuple(row.get("params", ())),
        effects=(*map(_effect, row.get("effects", ())), *map(_number_read, row.get("numbers", ()))),
        result=_result(row["result"]),
        cases=tuple(ResultCase(_condition(case["when"]), _result(case["result"])) for case in row.get("cases", ())),
        placement=_one_of(row.get("placement", "same"), get_args(Placement)),
        mutates=tuple(row.get("mutates", ())),
        view=row.get("view", False),
        pointwise=row.get("pointwise", False),
        valueless=row.get("valueless", False),
        launches=row.get("launches", True),
        ndim=_one_of(row.get("ndim"), (None, 0, 1, "size", "same", "one-more")),
        attribute=row.get("attribute", False),
        tensor_hint=_one_of(row.get("tensor_hint"), (None, *get_args(TensorHint))),
        copies_values=row.get("copies_values", False),
        takes_tensor=row.get("takes_tensor", True),
        host_arguments=_one_of(row.get("host_arguments", "none"), get_args(HostArguments)),
        host_results=tuple(row.get("host_results", ())),
        checks_on_cpu=row.get("checks_on_cpu", False),
        no_kernel=tuple(row.get("no_kernel", ())),
        sums_in_any_order=row.get("sums_in_any_order", False),
        basis=_one_of(row["basis"], get_args(Basis)),
        evidence=tuple(row.get("evidence", ())),
    )


def _effect(row: Mapping[str, Any]) -> Effect:
    _check_keys(row, EFFECT_KEYS)
    return Effect(
        kind=_one_of(row["kind"], get_args(EffectKind)),
        rule=row["rule"],
        how=row["how"],
        when=_condition(row["when"]) if "when" in row else None,
        unless=_condition(row["unless"]) if "unless" in row else None,
        sometimes=row.get("sometimes", False),
        anywhere=row.get("anywhere", False),
        pageable=row.get("pageable", False),
    )


def _number_read(param: str) -> Effect:
    given_a_tensor = Condition(kinds={param: ("tensor", "tensors")})
    return Effect("reads-host", "GS101", "cast", when=given_a_tensor, only_if_certain=True)


def _condition(row: Mapping[str, Any]) -> Condition:
    _check_keys(row, {field.name for field in fields(Condition)})
    unknown = {kind for kinds in row.get("kinds", {}).values() for kind in kinds} - set(get_args(ArgumentKind))
    if unknown:
        raise ValueError(f"unknown kind of argument {sorted(unknown)[0]!r}")
    return Condition(
        given=tuple(row.get("given", ())),
        absent=tuple(row.get("absent", ())),
        kinds={param: tuple(kinds) for param, kinds in row.get("kinds", {}).items()},
        literals={param: tuple(values) for param, values in row.get("literals", {}).items()},
        same=tuple(row.get("same", ())),
        dtypes=tuple(row.get("dtypes", ())),
        inside=tuple(row.get("inside", ())),
        torch=row.get("torch"),
    )


def _result(row: str | Mapping[str, Any]) -> Result:
    """Read a result, written as its kind, as `reduction of mask`, or in full."""
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


def _check_keys(row: Mapping[str, Any], allowed: Set[str]) -> None:
    for key in row.keys() - allowed:
        raise ValueError(f"unknown key {key!r}")
