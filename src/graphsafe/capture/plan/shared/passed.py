"""Finds variables that pass from break to break. No captured code assigns or reads such variables, so their value, size
and structure may differ from step to step."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from graphsafe.capture.plan.shared.regions import Function, Region, function_of, grouped
from graphsafe.capture.plan.shared.statements import own_loads, own_stores, within
from graphsafe.report.model import CallSite


def passed(function: Function, regions: Iterable[Region]) -> Mapping[Region, frozenset[str]]:
    """Return, for each region of the function, its variables that occur only in these regions."""
    stored, names = set[str](), dict[Region, frozenset[str]]()
    inside: set[int] = set()
    for region in regions:
        place = function.place(region)
        statements = [one for one in within(place.statements if place else []) if isinstance(one, ast.stmt)]
        inside |= {id(one) for one in statements}
        stored |= {name for one in statements for name in own_stores(one)}
        names[region] = frozenset(name for one in statements for name in _names(one))
    outside = _given(function)
    for statement in function.statements():
        if id(statement) not in inside:
            outside |= _names(statement)
    return {region: held & (stored - outside) for region, held in names.items()}


def beyond(regions: Sequence[Region]) -> list[frozenset[str]]:
    """Return, for each break, the variables that are neither its arguments nor its results. These are variables that
    pass from break to break, and variables of an enclosing function, which the closure holds."""
    found = {
        region: names | function.nonlocals
        for function, own in grouped(dict(enumerate(regions))).items()
        for region, names in passed(function, own.values()).items()
    }
    return [found[region] for region in regions]


def between(function: Function, regions: Iterable[Region]) -> Mapping[Region, tuple[str, ...]]:
    """Return, for each region of the function, its variables that pass from one region to another."""
    found = passed(function, regions)
    counts = Counter(name for names in found.values() for name in names)
    return {region: tuple(sorted(name for name in names if counts[name] > 1)) for region, names in found.items()}


def occurrences(function: Function, name: str) -> list[Region]:
    """Return the statements in which the variable occurs. Return none if the variable cannot pass from break to
    break."""
    found = [function.region_at(one) for one in function.statements() if name in _names(one)]
    legal = [region for region in map(function.legal, found) if region is not None]
    passes = len(legal) == len(found) and any(name in names for names in passed(function, legal).values())
    return legal if passes else []


@dataclass(frozen=True, slots=True)
class Receiver:
    """A statement that uses the return value of a call."""

    region: Region
    frames: tuple[CallSite, ...]
    "The calls that lead to the statement's function."
    name: str
    "The variable to which the call's value is bound."
    line: int


def receivers(frames: Sequence[CallSite], closed: Set[Function]) -> list[Receiver] | None:
    """Return the statements that use the value which the innermost function returns to its caller. The list is empty if
    the step itself returns the value.

    Return None if captured code would use the value, or if a break would have to be inside a function in `closed`.
    """
    for at in reversed(range(len(frames) - 1)):
        function, line = function_of(frames[at]), frames[at].line
        if function is None or function in closed:
            return None
        match function.node_at(line):
            case ast.Return(value=ast.Call()):
                continue
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call()) as statement:
                using = [one for one in function.statements() if one is not statement and name in _names(one)]
                regions = [function.legal(function.region_at(one)) for one in using]
                other = any(name in own_stores(one) for one in using) or name in _given(function)
                found = [Receiver(one, tuple(frames[:at]), name, line) for one in regions if one is not None]
                return None if other or len(found) < len(using) else found
            case _:
                return None
    return []


def _given(function: Function) -> set[str]:
    """Return the variables that calls or other code assign: arguments, nonlocals and globals."""
    arguments = {node.arg for node in ast.walk(function.node.args) if isinstance(node, ast.arg)}
    return arguments | function.nonlocals | function.globals


def _names(statement: ast.stmt) -> set[str]:
    return own_stores(statement) | own_loads(statement)
