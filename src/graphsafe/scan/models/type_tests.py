"""Tests of a value's type by `isinstance`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Set

from graphsafe.scan.domain.values import (
    Array,
    ClassValue,
    Dict,
    Lib,
    NoneValue,
    Number,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models import packed_sequences
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.symbols.index import dotted, elements

_CONTAINERS: Mapping[type, Set[str]] = {
    Sequence: frozenset(("list", "tuple", "Sequence", "Iterable")),
    Dict: frozenset(("dict", "Mapping")),
}


def named_types(frame: Frame, node: ast.expr) -> Set[str]:
    """Return the names of the types in a test, without their modules, and `?` for an unknown type. A name may stand for
    a tuple of types: `ARRAYS = (np.ndarray, torch.Tensor)`."""
    value = frame.evaluate_quietly(node) if isinstance(node, ast.Name) else None
    if type(value) is Sequence and value.items:
        return {re.split("[.:]", _name_of(item))[-1] for item in value.items}
    return {"?"} if type(value) is Unknown else _written(node)


def _name_of(value: Value) -> str:
    return value.name if type(value) is Lib else value.ref if type(value) is ClassValue else "?"


@memoize_on_node
def _written(node: ast.expr) -> Set[str]:
    return {(dotted(name) or "?").rpartition(".")[2] for name in elements(node)}


def is_a(value: Value, wanted: Set[str]) -> bool | None:
    """Return whether a value is an instance of one of the wanted types, or None if this is not known."""
    if type(value) is Tensor:
        return True if wanted & {"Tensor", "Parameter"} else None if "?" in wanted else False
    if type(value) is Number:
        if "Tensor" in wanted:
            return False
        return value.type in wanted if value.type is not None and wanted <= {"int", "float", "bool", "str"} else None
    if type(value) is NoneValue:
        return False
    if type(value) is Array:
        return True if "ndarray" in wanted else False if "Tensor" in wanted else None
    if packed_sequences.is_packed(value) and "PackedSequence" in wanted:
        return True
    kinds = _CONTAINERS.get(type(value))
    if kinds is None or not kinds.isdisjoint(wanted):
        return None if kinds is None else True
    return False if wanted <= {"Tensor", "ndarray", "int", "float", "str", "bool"} else None


def is_instance(frame: Frame, value: Value, node: ast.expr) -> bool | None:
    wanted = named_types(frame, node)
    if type(value) is Union or type(value) is Unknown:
        answers = {is_a(option, wanted) for option in value.options} if type(value) is Union else {None}
        return answers.pop() if len(answers) == 1 else None
    return is_a(value, wanted)
