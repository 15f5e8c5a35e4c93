"""Calls of functions under `functools.singledispatch`: the first argument chooses the implementation."""

from __future__ import annotations

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.values import Dict, Function, Instance, Number, Sequence, Tensor, Value, options
from graphsafe.scan.execution.frame import Engine


def functions(engine: Engine, function: Function, arguments: Arguments) -> list[Function]:
    """Return the functions that a call may run, or none if the function has no implementations by type."""
    facts = engine.project.function_facts(function.ref) if function.node is None else None
    if facts is None or not facts.by_type or not arguments.positional:
        return []
    path = function.ref.partition("::")[0]
    names: dict[str, None] = {}
    for option in options(arguments.positional[0]):
        fitting = {name: _is_of(engine, option, type_) for type_, name in facts.by_type}
        names.update(dict.fromkeys(name for name, fits in fitting.items() if fits is not False))
        if True not in fitting.values():
            names[facts.name] = None
    return [replace(function, ref=f"{path}::{name}") for name in names]


def _is_of(engine: Engine, value: Value, type_: str) -> bool | None:
    """Return whether a value is of a type of this name; None where that is not known."""
    if isinstance(value, Tensor):
        return type_ in ("Tensor", "Parameter")
    if isinstance(value, Instance):
        return any(base.rpartition("::")[2].rpartition(".")[2] == type_ for base in engine.project.mro(value.ref))
    if isinstance(value, Sequence):
        return type_ == value.kind if value.kind in ("list", "tuple", "set") else None
    if isinstance(value, Dict):
        return type_ == "dict"
    if isinstance(value, Number):
        return None if value.type is None else value.type == type_
    return None
