"""Tests of a value's type by `isinstance`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Set

from graphsafe.scan.domain.values import Array, Dict, NoneValue, Number, Sequence, Tensor, Union, Unknown, Value
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.symbols.index import dotted, elements

_CONTAINERS: Mapping[type, Set[str]] = {
    Sequence: frozenset(("list", "tuple", "Sequence", "Iterable")),
    Dict: frozenset(("dict", "Mapping")),
}


@memoize_on_node
def named_types(node: ast.expr) -> set[str]:
    return {(dotted(name) or "?").rpartition(".")[2] for name in elements(node)}


def is_a(value: Value, wanted: set[str]) -> bool | None:
    """Return whether a value is an instance of one of the wanted types, or None if this is not known."""
    if type(value) is Tensor:
        return bool(wanted & {"Tensor", "Parameter"})
    if type(value) is Number:
        if "Tensor" in wanted:
            return False
        return value.type in wanted if value.type is not None and wanted <= {"int", "float", "bool", "str"} else None
    if type(value) is NoneValue:
        return False
    if type(value) is Array:
        return True if "ndarray" in wanted else False if "Tensor" in wanted else None
    kinds = _CONTAINERS.get(type(value))
    if kinds is None or not kinds.isdisjoint(wanted):
        return None if kinds is None else True
    return False if wanted <= {"Tensor", "ndarray", "int", "float", "str", "bool"} else None


def is_instance(value: Value, node: ast.expr) -> bool | None:
    wanted = named_types(node)
    if type(value) is Union or type(value) is Unknown:
        answers = {is_a(option, wanted) for option in value.options} if type(value) is Union else {None}
        return answers.pop() if len(answers) == 1 else None
    return is_a(value, wanted)
