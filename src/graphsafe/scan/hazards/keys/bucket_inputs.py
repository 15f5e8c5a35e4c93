"""Inputs of graphs that are stored by size: `self.graphs[n] = {"lens": lens}` or `entry.lens = lens`.

The function that captures has a local name for such an input, and the function that replays has another one. The key or
the attribute is the same in both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Set

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    called_name,
    captures_in,
    entry,
    head,
    is_plain_replay,
    known_to,
    own,
    own_nodes,
    place,
    viewed,
    written,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables
from graphsafe.scan.symbols.blocks import attribute_of, parameters
from graphsafe.scan.symbols.index import elements, takes_slice


def refilled(found: Tables) -> Set[str]:
    """Return the keys and attributes of a stored graph's tensors into which a replaying function writes:
    `e["lens"].copy_(lens); e["graph"].replay()`."""
    return {key for _, function, _ in found.functions for key in _refilled_in(function)}


def _refilled_in(function: Function) -> Iterator[str]:
    nodes = [node for _, node in own_nodes(function)]
    replays = [node.func.value for node in nodes if is_plain_replay(node) and isinstance(node.func, ast.Attribute)]
    holders = {part[0] for graph in replays if (part := _part(graph)) is not None} - {"self"}
    calls = own(function, ast.Call)
    if not holders or any(place(given) in holders for call in calls for given in known_to(call)):
        return  # a call that gets the whole entry may refresh all of it
    for node in nodes:
        target = written(node)
        is_slice = isinstance(target, ast.Subscript) and takes_slice(target)
        if target is None or (isinstance(node, ast.Assign) and not is_slice):
            continue
        part = _part(target.value if isinstance(target, ast.Subscript) and is_slice else target)
        if part is not None and part[0] in holders:
            yield part[1]


def _part(node: ast.expr) -> tuple[str, str] | None:
    """Return the object and the attribute or key of an expression: `e` and `lens` for `e.lens` and for `e["lens"]`."""
    key = node.attr if isinstance(node, ast.Attribute) else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        key = str(node.slice.value)
    if key is None or not isinstance(node, (ast.Attribute, ast.Subscript)):
        return None
    holder = place(node.value) or entry(node.value)
    return (holder, key) if holder is not None else None


def names(table: GraphTensors, function: Function, keys: Set[str]) -> Set[str]:
    """Return a capturing function's names for inputs that are stored under these keys."""
    if not keys:
        return frozenset()
    kept = _kept(function)
    return {text for text in table.inputs if head(text) != "self" and kept.get(text, _key(text)) in keys}


def _key(text: str) -> str | None:
    """Return the attribute or key in the name of a tensor: `lens` for `e.lens` and for `e['lens']`."""
    if "[]" in text:
        return None  # all entries of a table
    part = _part(ast.parse(text, mode="eval").body)
    return part[1] if part is not None else None


def _kept(function: Function) -> Mapping[str, str]:
    """Map the names of tensors to the keys and attributes under which a function stores them."""
    found: dict[str, str] = {}
    for _, node in own_nodes(function):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Name):
                    found[value.id] = str(key.value)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            found.update((node.value.id, part[1]) for one in node.targets if (part := _part(one)) is not None)
    return found


def is_kept(function: Function, name: str) -> bool:
    """Return whether a function stores a tensor somewhere: under a key, in an attribute, or in a container."""
    stores = [
        node for node in own(function, ast.Assign) if not all(isinstance(target, ast.Name) for target in node.targets)
    ]
    stored = [part for node in stores for part in elements(node.value)]
    return name in _kept(function) or any(isinstance(part, ast.Name) and part.id == name for part in stored)


def left_out(found: Tables, table: GraphTensors, function: Function) -> Iterator[str]:
    """Yield inputs that a replaying function does not refill, although it refills other inputs from fields of an
    argument.

    For example, the function runs `e.heat.fill_(params.heat)` and ignores `e.scale`, but the capture made `e.scale`
    from `params.scale`.
    """
    nodes = [node for _, node in own_nodes(function)]
    capturing = {name.rpartition(".")[2]: node for name, node, _ in found.functions if captures_in(node)}
    calls = own(function, ast.Call)
    handed = {given for call in calls if called_name(call) in capturing for given in known_to(call)}
    filled = {_key(text) for call in calls if (to := written(call)) and (text := viewed(to)) in table.inputs and text}
    for one in parameters(function):
        read = _fields(nodes, one.arg)
        # An argument that is used as a whole may choose the graph, or a call may refill inputs from it.
        used = [node for node in nodes if isinstance(node, ast.Name) and node.id == one.arg and node not in handed]
        if one.arg == "self" or filled.isdisjoint(read) or len(used) > len(read):
            continue
        made = {field for node in capturing.values() for field in _fields(ast.walk(node), one.arg)}
        yield from sorted(text for text in table.inputs if _key(text) in made.difference(read))


def _fields(nodes: Iterable[ast.AST], name: str) -> list[str]:
    """Return the attributes that code reads of the object `name`. An attribute that is read twice occurs twice."""
    return [attribute for node in nodes if (attribute := attribute_of(node, name)) is not None]
