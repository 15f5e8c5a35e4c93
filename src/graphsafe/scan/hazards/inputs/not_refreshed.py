"""Finds inputs that a replaying function forgets to refresh, although it refreshes others beside them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    arguments_of,
    called_name,
    captures_in,
    head,
    is_plain_replay,
    makes_tensor,
    own,
    own_names,
    own_nodes,
    place,
    stored_names,
    viewed,
    written,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables, targets
from graphsafe.scan.hazards.keys import bucket_inputs
from graphsafe.scan.hazards.owners import class_of, of_one_object
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import parameters
from graphsafe.scan.symbols.index import dotted


def lines(found: Tables, table: GraphTensors) -> Iterator[Line]:
    """Yield replays that miss a new value of an input. The function has a parameter with the name of an input, such as
    `lens` for `self.lens`. No line writes into this input, although the function fills other inputs from its
    parameters."""
    functions = sorted(table.replaying - table.capturing - table.preparing)
    written_to = {_end(text) for text in _written_in(found, class_of(found, functions[0]))} if functions else set()
    for function in functions:
        node = table.functions[function]
        nodes = [inner for _, inner in own_nodes(node)]
        replay = next(filter(is_plain_replay, nodes))
        for name in bucket_inputs.left_out(found, table, node):
            if _end(name) not in written_to:
                yield Line(function, "not-refreshed", replay, name)
        if table.scope is None and any(viewed(part) in table.inputs for part in map(written, nodes) if part):
            yield from (Line(function, "not-refreshed", replay, name) for name in _ignored(table, node, written_to))
        # Other callers may leave out an argument that has a default.
        optional = len(node.args.defaults)
        required = [*node.args.posonlyargs, *node.args.args]
        given = {one.arg for one in required[: len(required) - optional]} - _used_for_values(node)
        for name in _unfilled(table, function, given - written_to):
            yield Line(function, "not-refreshed", replay, name)
    for function in sorted(table.functions.keys() - table.replaying - table.preparing) if functions else ():
        yield from _computed_in_vain(table, function, written_to)


def _unfilled(table: GraphTensors, function: str, values: Set[str]) -> Iterator[str]:
    """Yield the inputs that no line fills, although the function has a value of that name and fills other inputs from
    parameters or variables of their names."""
    names = own_names(table.functions[function])
    filled = {name for name in table.inputs if function in [where for where, _ in table.filled.get(name, ())]}
    filled = {name for name in filled if _end(name) in names}
    for name in sorted(table.inputs - table.overwritten - table.filled.keys()) if filled else ():
        made = table.bound.get(name, ())
        is_tensor = any(makes_tensor(one.value) for _, one in made) or any(
            head(name) == "self" and name.partition("[")[0] == other.partition("[")[0] for other in filled
        )
        if is_tensor and _end(name) in values and all(where in table.preparing for where, _ in made):
            yield name


def _computed_in_vain(table: GraphTensors, function: str, written_to: Set[str]) -> Iterator[Line]:
    """Yield the line that fills an input in a function that computes the value of another input too, but copies it
    nowhere: `cond, uncond = encode(a), encode(b)`, and then only `self.cond.copy_(cond)`."""
    node = table.functions[function]
    variables = stored_names(own(node, ast.Name))
    copies = [(to, call) for call in own(node, ast.Call) if (to := _filled_by_name(call, variables)) is not None]
    if not table.inputs.isdisjoint(to for to, _ in copies):
        last = max((call for _, call in copies), key=lambda call: call.lineno)
        for name in _unfilled(table, function, variables - written_to):
            yield Line(function, "not-refreshed", last, name)


def _filled_by_name(call: ast.Call, variables: Set[str]) -> str | None:
    """Return the tensor that a call fills from a variable of its name: `self.x` for `self.x.copy_(x)`."""
    given = call.args[0] if called_name(call) == "copy_" and call.args else None
    if not isinstance(given, ast.Name) or given.id not in variables or not isinstance(call.func, ast.Attribute):
        return None
    to = place(call.func.value)
    return to if to is not None and _end(to) == given.id else None


def copies_left_out(found: Tables) -> Iterator[Line]:
    """Yield replays that miss a new value of a copy which the capturing function made of its argument. In `bufs =
    dict(x=x.clone(), mask=mask.clone())`, both are copies. The replaying function hands its arguments of the same names
    to the capturing function, and fills only `bufs["x"]`."""
    copies = {name.rpartition(".")[2]: _copies(node) for name, node, _ in found.functions if captures_in(node)}
    written_to = {_end(text) for node in ast.walk(found.tree) if (text := _text_written(node))} if copies else set()
    for name, function, _ in found.functions:
        calls = own(function, ast.Call)
        given = {one.arg for one in parameters(function)}
        for call in [call for call in calls if copies.get(called_name(call))]:
            replay = next(filter(is_plain_replay, calls), None)
            handed = {one.id for one in arguments_of(call) if isinstance(one, ast.Name)} & given
            copied = handed & copies[called_name(call)]
            used = {one.id for one in inside(function, ast.Name) if one not in arguments_of(call)}
            if replay is not None and copied & written_to:
                yield from (Line(name, "not-refreshed", replay, text) for text in sorted(copied - used - written_to))


def _copies(function: Function) -> set[str]:
    """Return the parameters whose copies a function stores under their own names: `{"x": x.clone()}`."""
    stored = [(word.arg, word.value) for call in own(function, ast.Call) for word in call.keywords]
    for node in own(function, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        stored += [(str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant)]
    given = {one.arg for one in parameters(function)}
    return {name for name, value in stored if name in given and ast.unparse(value) == f"{name}.clone()"}


def _ignored(table: GraphTensors, function: Function, written_to: Set[str]) -> Iterator[str]:
    """Yield inputs of a stored graph for which the function has an unused parameter of a similar name: `slots` for
    `slot` in `graph, ids, slot = self.graphs[n]`."""
    used = {one.id for one in inside(function, ast.Name)}
    unused = {one.arg for one in parameters(function)} - used - {"self", "cls"}
    for name in sorted(table.inputs):
        if {_end(name), f"{_end(name)}s", _end(name).removesuffix("s")} & unused and _end(name) not in written_to:
            yield name


def _end(name: str) -> str:
    """Return the attribute or the key at the end of a name: `lens` for `self.lens` and for `self.buf['lens']`."""
    return name.rpartition("[")[2].strip("']") if name.endswith("']") else name.rpartition(".")[2]


def _written_in(found: Tables, cls: str) -> Iterator[str]:
    """Yield the names of the tensors into which a file writes. Tensors that an unrelated class makes for itself are
    left out."""
    related = of_one_object(found, cls)
    others: dict[str, list[ast.AST]] = {}
    for name, function, _ in found.functions if cls else ():
        owner = class_of(found, name)
        if owner and owner not in related:
            others.setdefault(owner, []).extend(node for _, node in own_nodes(function))
    made = {owner: _made_in(nodes) for owner, nodes in others.items()}
    apart = {id(node) for owner, nodes in others.items() for node in nodes if _text_written(node) in made[owner]}
    yield from (text for node in ast.walk(found.tree) if (text := _text_written(node)) and id(node) not in apart)


def _text_written(node: ast.AST) -> str | None:
    """Return the name of the tensor into which a line writes."""
    target = written(node)
    text = viewed(target) if target is not None else None
    is_fill = isinstance(node, ast.Call) or (target is not None and text != place(target))
    return text if is_fill else None


def _made_in(nodes: Sequence[ast.AST]) -> Set[str]:
    """Return the attributes of `self` to which the methods of a class assign only tensors that they make."""
    made = [node for node in nodes if isinstance(node, ast.Assign)]
    bound = [(text, node.value) for node in made for one in targets(node) if (text := place(one)) is not None]
    others = {text for text, value in bound if not makes_tensor(value)}
    return {text for text, _ in bound if text.startswith("self.")} - others


def _used_for_values(function: Function) -> set[str]:
    """Return the names whose values a function reads. A read of the shape or type alone is ignored, as in
    `lens.shape[0]` and `len(lens)`."""
    form = {
        id(node.value)
        for node in inside(function, ast.Attribute)
        if node.attr in ("shape", "size", "dtype", "device", "ndim", "numel")
    }
    form |= {id(one) for call in inside(function, ast.Call) if dotted(call.func) == "len" for one in call.args}
    return {one.id for one in inside(function, ast.Name) if isinstance(one.ctx, ast.Load) and id(one) not in form}
