"""Finds loops that set the same seed before each replay. All replays then draw the same numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    called_name,
    constructed,
    is_plain_replay,
    loop_around,
    own,
    parents_in,
    place,
    shared_loop,
)
from graphsafe.scan.hazards.graph_tensors import Tables
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted

_SEEDS = frozenset(("manual_seed", "manual_seed_all"))


def lines(found: Tables) -> Iterator[Line]:
    replaying = {name for table in found.all for name in table.replaying}
    methods = {name.rpartition(".")[2] for name in replaying}
    constructors = {name.rpartition(".")[0]: one for name, one, _ in found.functions if name.endswith(".__init__")}
    for name, function, _ in found.functions:
        calls = own(function, ast.Call)
        seeds = [call for call in calls if called_name(call) in _SEEDS and len(call.args) == 1]
        if not seeds:
            continue
        constructor = constructors.get(name.rpartition(".")[0])
        held = _objects_made(constructor) if constructor is not None else {}
        objects = {**{one: cls for one, cls in held.items() if one.startswith("self.")}, **_objects_made(function)}
        replays = [
            call
            for call in calls
            if is_plain_replay(call) or _own_name(call) in methods or _full_name(call, objects) in replaying
        ]
        for call in seeds if replays else ():
            parents = parents_in(function)
            later = [replay for replay in replays if replay.lineno > call.lineno]
            loops = [shared_loop(call, replay, parents) for replay in later]
            loop = next((one for one in loops if one is not None), None)
            if loop is not None:
                is_same = not _changes(call.args[0], loop)
            else:
                # Each call of a method that replays once is a step.
                once = any(is_plain_replay(one) and loop_around(one, parents) is None for one in later)
                is_same = once and "." in name and _is_fixed(call.args[0], found)
            if is_same:
                yield Line(name, "seeded-again", call, ast.unparse(call))


def _own_name(call: ast.Call) -> str:
    """Return the name of a called function of the file or of the object: `draw` for `self.draw()` and `draw()`."""
    return (dotted(call.func) or "").removeprefix("self.")


def _objects_made(function: Function) -> Mapping[str, str]:
    """Map names and attributes to the classes of the objects that a function makes: `sampler = Sampler(net)`."""
    return {
        name: cls
        for made in own(function, ast.Assign)
        for name in map(place, made.targets)
        if name is not None and (cls := constructed(made.value)) is not None
    }


def _full_name(call: ast.Call, objects: Mapping[str, str]) -> str:
    """Return the qualified name of a called method: `Sampler.draw` for `sampler.draw()`, and `Sampler.__call__` for
    `sampler()`."""
    called = dotted(call.func) or ""
    holder, _, method = called.rpartition(".")
    return f"{objects[called]}.__call__" if called in objects else f"{objects.get(holder, '')}.{method}"


def _is_fixed(seed: ast.expr, found: Tables) -> bool:
    """Return whether a seed is a number in the code, or an attribute that only constructors assign."""
    text = place(seed) or ""
    others = [function for name, function, _ in found.functions if not name.endswith(".__init__")]
    written = {place(node) for one in others for node in own(one, ast.Attribute) if isinstance(node.ctx, ast.Store)}
    return isinstance(seed, ast.Constant) or (text.startswith("self.") and text not in written)


def _changes(seed: ast.expr, loop: ast.AST) -> bool:
    """Return whether a seed may differ between the iterations of a loop: it calls a function, or the loop assigns one
    of its names."""
    assigned = {dotted(node) for node in _named(loop) if isinstance(node.ctx, ast.Store)}
    is_computed = bool(inside(seed, ast.Call) or inside(seed, ast.Subscript))
    return is_computed or not assigned.isdisjoint(map(dotted, _named(seed)))


def _named(node: ast.AST) -> Sequence[ast.Name | ast.Attribute]:
    return [*inside(node, ast.Name), *inside(node, ast.Attribute)]
