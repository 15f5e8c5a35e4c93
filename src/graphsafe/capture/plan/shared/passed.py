"""Variables that pass from break to break. No captured code assigns or reads them, so they may have another value, size
or structure in every step."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from graphsafe.capture.plan.shared.regions import Function, Region, function_with
from graphsafe.capture.plan.shared.statements import own_loads, own_stores, within


def passed(function: Function, regions: Iterable[Region]) -> Mapping[Region, frozenset[str]]:
    """Return for each region of the function the variables in it that occur in these regions only."""
    stored, names = set[str](), dict[Region, frozenset[str]]()
    inside: set[int] = set()
    for region in regions:
        place = function.place(region)
        statements = [one for one in within(place.statements if place else []) if isinstance(one, ast.stmt)]
        inside |= {id(one) for one in statements}
        stored |= {name for one in statements for name in own_stores(one)}
        names[region] = frozenset(name for one in statements for name in _names(one))
    outside = {node.arg for node in ast.walk(function.node.args) if isinstance(node, ast.arg)}
    for statement in function.statements():
        if id(statement) not in inside:
            outside |= _names(statement)
    own = stored - outside - function.nonlocals - function.globals
    return {region: held & own for region, held in names.items()}


def beyond(regions: Sequence[Region]) -> list[frozenset[str]]:
    """Return for each break the variables that it is not handed and does not hand over: those that pass from break to
    break, and those of an enclosing function, which it finds by itself."""
    by_function: dict[Function, list[Region]] = {}
    for region in regions:
        by_function.setdefault(function_with(region), []).append(region)
    found = {
        region: names | function.nonlocals
        for function, own in by_function.items()
        for region, names in passed(function, own).items()
    }
    return [found[region] for region in regions]


def between(function: Function, regions: Iterable[Region]) -> Mapping[Region, tuple[str, ...]]:
    """Return for each region of the function the variables in it that pass from one of them to another."""
    found = passed(function, regions)
    counts = Counter(name for names in found.values() for name in names)
    return {region: tuple(sorted(name for name in names if counts[name] > 1)) for region, names in found.items()}


def occurrences(function: Function, name: str) -> list[Region]:
    """Return the statements in which the variable occurs, if it could pass from break to break."""
    found = [function.region_at(one) for one in function.statements() if name in _names(one)]
    legal = [region for region in map(function.legal, found) if region is not None]
    passes = len(legal) == len(found) and any(name in names for names in passed(function, legal).values())
    return legal if passes else []


def _names(statement: ast.stmt) -> set[str]:
    return own_stores(statement) | own_loads(statement)
