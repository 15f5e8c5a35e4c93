"""Graphs that are stored together with their tensors in a tuple, an object or a dict: `self.graphs[n] = (graph, x, y)`.

The function that captures such a graph and the function that replays it use different names for the graph's tensors.
The two names of a tensor are matched by the index in the tuple, the attribute of the object, or the key in the dict.
Results may also be stored alone: `self.outs[n] = out`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    called_name,
    captures_in,
    entry,
    graphs_of,
    is_host,
    is_plain_replay,
    own,
    own_nodes,
    place,
    stored_names,
    viewed,
    written,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables, bindings, targets
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import kept_names
from graphsafe.scan.symbols.index import dotted, elements

Key = int | str
"The index in a tuple, the attribute of an object, or the key of a dict."


@dataclass(frozen=True, slots=True)
class Bundle:
    """The objects that are stored together with a graph."""

    kind: str
    "`tuple`, `attribute` or `key`."
    size: int
    "The number of elements of the tuple."
    graph: Key
    inputs: frozenset[Key]
    outputs: frozenset[Key]


def note(found: Tables) -> None:
    """For each function that replays a stored graph, add a table of the function's names for the graph's tensors."""
    fields = {node.name: _fields(node) for node in inside(found.tree, ast.ClassDef)}
    bundles = [bundle for _, function, known in found.functions for bundle in _made(function, known, fields)]
    if not bundles:
        return
    for position, (name, function, known) in enumerate(found.functions):
        table = _names(name, function, bundles)
        if table is not None:
            found.functions[position] = name, function, [*known, table]
            found.all.append(table)


# places that store graphs


def _made(function: Function, known: list[GraphTensors], fields: Mapping[str, Mapping[Key, str]]) -> Iterator[Bundle]:
    """Yield the bundles in which a function stores its captured graph together with the graph's tensors."""
    graphs = {graph for block in captures_in(function) for graph in graphs_of(block)}
    if not graphs:
        return
    inputs = set().union(*(table.inputs for table in known))
    outputs = set().union(*(table.outputs for table in known))
    for text in sorted(graphs):
        holder, _, name = text.rpartition(".")
        if holder and not text.startswith("self."):
            # An object that gets its graph and its tensors one by one: `s.graph = CUDAGraph()`, `s.y = model(s.x)`.
            read, written = _attributes(holder, inputs - {text}), _attributes(holder, outputs)
            if read or written:
                yield Bundle("attribute", 0, name, read, written)
    for _, node in own_nodes(function):
        kind, parts = _parts(node, fields)
        roles = {key: place(part) for key, part in parts.items()}
        graph = next((key for key, text in roles.items() if text in graphs), None)
        if graph is not None:
            read = frozenset(key for key, text in roles.items() if text in inputs and text not in graphs)
            written = frozenset(key for key, text in roles.items() if text in outputs)
            if read or written:
                yield Bundle(kind, len(parts), graph, read, written)


def _attributes(holder: str, names: Set[str]) -> frozenset[Key]:
    """Return the attributes of an object that are among these names: `x` for `s.x`."""
    return frozenset(name.rpartition(".")[2] for name in names if name.rpartition(".")[0] == holder)


def _parts(node: ast.AST, fields: Mapping[str, Mapping[Key, str]]) -> tuple[str, Mapping[Key, ast.expr]]:
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        return "tuple", dict(enumerate(node.elts))
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return "key", {str(key.value): value for key, value in pairs if isinstance(key, ast.Constant)}
    if isinstance(node, ast.Call):
        words: dict[Key, ast.expr] = {word.arg: word.value for word in node.keywords if word.arg}
        name = called_name(node)
        if name in ("dict", "SimpleNamespace"):
            return "key" if name == "dict" else "attribute", words
        names = fields.get(name, {}) if isinstance(node.func, ast.Name) else {}
        given: dict[Key, ast.expr] = {names[i]: value for i, value in enumerate(node.args) if i in names}
        given.update({names[word]: value for word, value in words.items() if word in names})
        return "attribute", given
    return "", {}


def _fields(cls: ast.ClassDef) -> Mapping[Key, str]:
    """Return the attribute to which each argument of a constructor is assigned, by the argument's position and name."""
    methods = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
    constructor = next((node for node in methods if node.name == "__init__"), None)
    if constructor is None:
        fields = [node.target for node in cls.body if isinstance(node, ast.AnnAssign)]
        declared = [target.id for target in fields if isinstance(target, ast.Name)]
        return {**dict(enumerate(declared)), **{name: name for name in declared}}
    parameters = [argument.arg for argument in constructor.args.args][1:]
    kept = [(name, to) for to, name in kept_names(constructor).items() if name in parameters]
    return {**{parameters.index(name): to for name, to in kept}, **dict(kept)}


# places that read stored graphs


def _names(name: str, function: Function, bundles: list[Bundle]) -> GraphTensors | None:
    """Return the names that a function uses for the inputs and outputs of the stored graphs that it replays. Return
    None if it replays no stored graph."""
    found = GraphTensors(functions={name: function}, replaying={name})
    replays = filter(is_plain_replay, own(function, ast.Call))
    for graph in [call.func.value for call in replays if isinstance(call.func, ast.Attribute)]:
        for bundle in bundles:
            for texts, keys in ((found.inputs, bundle.inputs), (found.outputs, bundle.outputs)):
                texts.update(_taken_out(bundle, graph, keys, own(function, ast.Assign)))
    return found if found.inputs or found.outputs else None


def _taken_out(bundle: Bundle, graph: ast.expr, keys: frozenset[Key], made: list[ast.Assign]) -> Iterator[str]:
    if bundle.kind == "attribute" and isinstance(graph, ast.Attribute) and graph.attr == bundle.graph:
        base = dotted(graph.value)
        yield from (f"{base}.{key}" for key in keys if base is not None and base != "self")
    elif isinstance(graph, ast.Subscript) and isinstance(graph.slice, ast.Constant):
        base = place(graph.value)
        if base is not None and graph.slice.value == bundle.graph:
            yield from (f"{base}[{key!r}]" for key in keys)
    elif bundle.kind == "tuple" and isinstance(graph, ast.Name):
        for node in made:
            target = node.targets[0] if len(node.targets) == 1 else None
            names = [place(part) for part in target.elts] if isinstance(target, ast.Tuple) else []
            if len(names) == bundle.size and names[bundle.graph] == graph.id:  # type: ignore[index]
                yield from filter(None, (names[key] for key in keys))  # type: ignore[index]


# results that are stored without a graph


def results_of(table: GraphTensors, function: Function) -> Set[str]:
    """Return the names that one of the owner's functions uses for results that every replay overwrites: `self.out`,
    `self.outs[]`, and `out` after `out = self.outs[n]` or `out, count = self.outs[n]`."""
    found = {*table.overwritten, *landings(table)}
    if isinstance(table.scope, ast.ClassDef):
        found.update(text for one in table.functions.values() for text in _kept(one))
    stored = [name for name in own(function, ast.Name) if isinstance(name.ctx, ast.Store)]
    first = min((call.lineno for call in own(function, ast.Call) if is_plain_replay(call)), default=0)
    # A name that is bound again after the replay, as in `out = out.clone()`, may stand for another tensor.
    later = {name.id for name in stored if name.lineno > first > 0}
    return _with_local_names(function, found - later)


def _with_local_names(function: Function, found: Set[str]) -> Set[str]:
    """Return the given names, and the local names that are bound once, to parts or views of what they stand for."""
    names = [name.id for name in own(function, ast.Name) if isinstance(name.ctx, ast.Store)]
    while True:
        taken = {
            target.id
            for node in own(function, ast.Assign)
            if viewed(node.value) in found
            for target in targets(node)
            if isinstance(target, ast.Name) and names.count(target.id) == 1
        }
        if taken <= found:
            return found
        found = found | taken


def landings(table: GraphTensors) -> Iterator[str]:
    """Yield the attributes into which a replaying function copies an output: `self.host.copy_(self.out)`. The copies
    after later replays overwrite them."""
    for name in sorted(table.replaying):
        outputs = _with_local_names(table.functions[name], table.overwritten)
        for call in own(table.functions[name], ast.Call):
            if called_name(call) == "copy_" and call.args and viewed(call.args[0]) in outputs:
                target = written(call)
                if isinstance(target, ast.Attribute) and (place(target) or "").startswith("self."):
                    yield ast.unparse(target)


def _kept(function: Function) -> Iterator[str]:
    """Yield the attributes and tables in which a function stores tensors that its captures bind to local names."""
    for block in captures_in(function):
        end = block.end_lineno or block.lineno
        made = {*_bound_in(block)} - stored_names(name for name in own(function, ast.Name) if name.lineno > end)
        for node in [one for one in own(function, ast.Assign) if one.lineno > end]:
            for target, value in bindings(node):
                text = place(target) or entry(target)
                if text is not None and text.startswith("self.") and viewed(value) in made:
                    yield text


def _bound_in(block: ast.With | ast.AsyncWith) -> Iterator[str]:
    for statement in block.body:
        for node in inside(statement, ast.Assign):
            if not is_host(node.value):
                names = (part for target in node.targets for part in elements(target))
                yield from (part.id for part in names if isinstance(part, ast.Name))
