"""Functions that return outputs of a graph. Such a function returns the output itself (not a copy), alone, in a tuple
or in a dict, or returns the result of another such function. Such a function may also be a method of an imported class,
whose file seldom keeps the result itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from graphsafe.scan.hazards import kept_graphs
from graphsafe.scan.hazards.graph_syntax import (
    Function,
    called_name,
    graphs_of,
    is_plain_replay,
    own,
    own_nodes,
    place,
    viewed,
)
from graphsafe.scan.hazards.graph_tensors import Tables
from graphsafe.scan.hazards.module_tensors import tables
from graphsafe.scan.hazards.same_objects import spelled_out
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.sources.source import parse
from graphsafe.scan.symbols.index import dotted, elements
from graphsafe.scan.symbols.project import Project
from graphsafe.scan.symbols.project_files import Files

_CLASS = re.compile(rb"^\s*class\s+(\w+)", re.M)
_GRAPHED = "<graphed>."
"The prefix for names of callables whose graphs PyTorch captures."
COMPILED = f"{_GRAPHED}<compiled>."
"""The prefix for callables made by torch.compile. A call of such a callable invalidates the last outputs before it
copies its inputs."""
Parts = frozenset[int] | None
"The elements of a returned tuple that are outputs, or None if the whole value is an output."


@dataclass(frozen=True, slots=True)
class Given:
    """The outputs that a function returns."""

    value: ast.expr
    parts: Parts = None

    def names(self, target: ast.expr) -> frozenset[str]:
        """Return the names that hold outputs after a call's result is bound to a target or unpacked into it."""
        parts = enumerate(elements(target))
        whole = self.parts is None or isinstance(target, ast.Name)
        return frozenset(
            part.id for i, part in parts if isinstance(part, ast.Name) and (whole or i in (self.parts or ()))
        )


def replaying(found: Tables) -> dict[str, Given]:
    """Return the functions that replay a graph and return its outputs. Each comes with the outputs that it returns."""
    outputs = outputs_by_graph(found)
    others = {
        name: given
        for name, node, _ in (found.functions if outputs else ())
        for replay in filter(is_plain_replay, own(node, ast.Call))
        if (given := _returned(node, outputs_of_other(replay, outputs))) is not None
    }
    return others | {
        name: given
        for table in found.all
        for name in sorted(table.replaying)
        if (given := _returned(table.functions[name], kept_graphs.results_of(table, table.functions[name]))) is not None
    }


def outputs_by_graph(found: Tables) -> Mapping[str, Sequence[Set[str]]]:
    """Map the names of graphs, such as `self.graph`, to the outputs of each graph with this name."""
    outputs: dict[str, list[Set[str]]] = {}
    for table in found.all:
        for graph in {graph for block in table.blocks for graph in graphs_of(block)}:
            outputs.setdefault(graph, []).append(table.overwritten)
    return outputs


def outputs_of_other(replay: ast.Call, outputs: Mapping[str, Sequence[Set[str]]]) -> Set[str]:
    """Return the outputs of another object, if a call replays its graph: `runner.y` for `runner.graph.replay()`."""
    owner, _, attribute = (dotted(replay.func) or "").removesuffix(".replay").rpartition(".")
    written = outputs.get(f"self.{attribute}", ())
    if len(written) != 1 or owner in ("", "self"):
        return frozenset()
    return {f"{owner}.{text.removeprefix('self.')}" for text in written[0]}


def _returned(function: Function, outputs: Set[str]) -> Given | None:
    """Return the outputs that a function returns without a copy, or None if it returns none."""
    for value in [inner.value for inner in own(function, ast.Return) if inner.value is not None]:
        held = [*value.values] if isinstance(value, ast.Dict) else [value]
        if any(viewed(one) in outputs for one in held):
            return Given(value)
        if isinstance(value, ast.Tuple):
            parts = frozenset(i for i, part in enumerate(value.elts) if viewed(part) in outputs)
            if parts:
                return Given(value, parts)
    return None


def passed_on(function: Function, giving: Mapping[str, Given], names: Mapping[str, str]) -> Given | None:
    """Return the outputs that a function receives from another function and returns, or None if there are none."""
    held: set[str] = set()
    for _, inner in own_nodes(function):
        call = inner.value if isinstance(inner, (ast.Return, ast.Assign)) else None
        source = source_of(call, names) if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and source is not None:
            if not isinstance(inner, ast.Assign):
                return Given(call, giving[source].parts)
            held |= giving[source].names(inner.targets[0])
    # A name that is assigned more than once may stand for another value when the function returns.
    stored = [name.id for name in own(function, ast.Name) if is_stored(name)]
    return _returned(function, {name for name in held if stored.count(name) == 1})


def is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def names_of(found: Tables, giving: Mapping[str, Given]) -> dict[str, str]:
    """Map the names in calls to the full names of the functions that return outputs. The name in a call is the last
    part of the called function's name. The name of the object precedes the last part if the class is imported, or if
    several classes have such a method: `runner.step`."""
    names = {
        end_of(name): name
        for name in giving.keys() - found.imported.keys()
        if name.startswith(_GRAPHED) or found.functions_called(end_of(name)) == 1
    }
    names.update(called_objects(found, giving))
    names.update(_made_functions(found, giving))
    methods = {name for name in giving if "." in name and name not in names.values() and not name.startswith(_GRAPHED)}
    ends = {end_of(name) for name in methods}
    known = methods | {name for name, _, _ in found.functions if end_of(name) in ends}
    classes: dict[str, set[str]] = {}
    for held, made in called_objects(found, sorted(f"{name.rpartition('.')[0]}.__call__" for name in known)):
        classes.setdefault(held, set()).add(made.rpartition(".")[0])
    # A name for objects of several classes does not show whose method a call runs.
    for held, (cls, *others) in classes.items():
        if not others:
            names.update({f"{held}.{end_of(name)}": name for name in methods if name.rpartition(".")[0] == cls})
    return names


def _made_functions(found: Tables, giving: Mapping[str, Given]) -> Iterator[tuple[str, str]]:
    """Yield the names of functions that another function makes, each with the inner function that it returns:
    `self.step = graphed(fn, x)` for `def graphed(fn, x): …; return replay`."""
    functions = found.by_name
    makers = {
        end_of(maker): name
        for name in giving
        if (maker := name.rpartition(".")[0]) in functions
        and any(place(one.value) == end_of(name) for one in own(functions[maker], ast.Return) if one.value is not None)
    }
    for node in inside(found.tree, ast.Assign) if makers else ():
        made = makers.get(called_name(node.value)) if isinstance(node.value, ast.Call) else None
        for target in node.targets if made is not None else ():
            name = end_of(dotted(target) or "")
            if name and not found.functions_called(name):
                yield name, made or ""


def source_of(call: ast.Call, names: Mapping[str, str]) -> str | None:
    """Return the function whose result a call returns, or None if this result is not an output."""
    name = called_name(call)
    holder = end_of(dotted(call.func.value) or "") if isinstance(call.func, ast.Attribute) else ""
    return names.get(name) or names.get(f"{holder}.{name}")


def _returns_self(function: Function) -> bool:
    values = [inner.value for inner in own(function, ast.Return)]
    return bool(values) and all(isinstance(value, ast.Name) and value.id == "self" for value in values)


def _class_made(call: ast.Call, chained: Set[str]) -> str | None:
    """Return the class of the object that a call makes: `Runner(model)`, or `Runner(model).build()` if `build` returns
    `self`."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call):
        made = _class_made(function.value, chained)
        return made if f"{made}.{function.attr}" in chained else None
    return dotted(function)


def called_objects(found: Tables, functions: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of objects whose `__call__` is one of these functions, each with that function."""
    methods = {name.rpartition(".")[0]: name for name in functions if name.endswith(".__call__")}
    chained = {name for name, function, _ in found.functions if _returns_self(function)} if methods else set()
    for node in ast.walk(found.tree) if methods else ():
        if isinstance(node, ast.arg) and node.annotation is not None:
            method = methods.get(dotted(node.annotation) or "")
            if method is not None:
                yield node.arg, method
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            method = methods.get(_class_made(node.value, chained) or "")
            for target in node.targets if method is not None else ():
                yield (dotted(target) or "").rpartition(".")[2], method or ""


def end_of(name: str) -> str:
    return name.rpartition(".")[2]


# graphs that PyTorch makes


def graphed_callables(found: Tables) -> Iterator[tuple[str, ast.Call]]:
    """Yield the names of callables for which PyTorch makes the graphs: `torch.cuda.make_graphed_callables(model,
    (x,))`, `self.run = torch.compile(model, mode="reduce-overhead")`, a function with `@torch.compile(…)`."""
    for function, inner, _ in found.functions:
        for decorator in inner.decorator_list:
            if isinstance(decorator, ast.Call) and makes_graphs(decorator):
                yield f"{COMPILED}{end_of(function)}", decorator
    makers = {name: made for name, inner, _ in found.functions for made in _makes_for_caller(inner)}
    for node in inside(found.tree, ast.Assign):
        call = node.value
        if not isinstance(call, ast.Call) or len(node.targets) != 1:
            continue
        making = makers.get(dotted(call.func) or "", call)
        for name in (end_of(place(one) or "") for one in elements(node.targets[0]) if makes_graphs(making)):
            # The maker's own inner function may have the same name.
            is_function = making is call and found.functions_called(name) > 0
            # After `step = torch.compile(step, …)`, the function's name refers to the compiled function.
            if name and (not is_function or [place(one) for one in call.args[:1]] == [name]):
                compiled = dotted(making.func) == "torch.compile"
                yield f"{COMPILED if compiled else _GRAPHED}{name}", call


def _makes_for_caller(function: Function) -> Iterator[ast.Call]:
    """Yield the calls with which a function makes a graphed callable and returns it: `return torch.compile(step,
    mode="reduce-overhead")`."""
    for value in (node.value for node in own(function, ast.Return)):
        if isinstance(value, ast.Call) and makes_graphs(value):
            yield value


def makes_graphs(call: ast.Call) -> bool:
    name = dotted(call.func) or ""
    if name.endswith("make_graphed_callables"):
        return True
    modes = [word.value for word in call.keywords if word.arg == "mode"]
    return name == "torch.compile" and any(
        isinstance(mode, ast.Constant) and mode.value in ("reduce-overhead", "max-autotune") for mode in modes
    )


# methods of imported classes


def imported_methods(project: Project, path: str) -> Mapping[str, Parts]:
    """Return the methods of imported classes that return outputs, by names such as `Runner.step`. Each comes with the
    parts of its result that are outputs."""
    found: dict[str, Parts] = {}
    for name, ref in _classes(project, path):
        defined, _, cls = ref.partition("::")
        for method, parts in _given_in(project, defined).items():
            if method.rpartition(".")[0] == cls:
                found[f"{name}.{method.rpartition('.')[2]}"] = parts
    return found


def imports_runners(project: Project, path: str) -> bool:
    """Return whether a file imports a class from a file that replays graphs."""
    return next(_classes(project, path), None) is not None


def _classes(project: Project, path: str) -> Iterator[tuple[str, str]]:
    file = project.files.index(path)
    for name, target in file.imports.items() if file is not None else ():
        may_replay = name[:1].isupper() and _may_replay(project.files, target)
        binding = project.resolve(file, name) if file is not None and may_replay else None
        if binding is not None and binding.kind == "class":
            defined = project.files.index(binding.ref.partition("::")[0])
            if defined is not None and defined.replays and defined.path != path:
                yield name, binding.ref


def _may_replay(files: Files, target: str) -> bool:
    """Return whether an imported name may be a class of a file that replays graphs. This test indexes no file. The
    module from which the name is imported may itself import the class under another name."""
    module, _, name = target.rpartition(".")
    renamed = f" as {name}".encode()
    return name in files.found_by("classes of files that replay", _classes_in) or any(
        renamed in (files.data(path) or b"") for path in files.modules.get(module, ())
    )


def _classes_in(data: bytes) -> Iterator[tuple[str, str]]:
    for name in _CLASS.findall(data) if b".replay()" in data else ():
        yield name.decode(), ""


def _given_in(project: Project, path: str) -> Mapping[str, Parts]:
    def read() -> Mapping[str, Parts]:
        found = tables(spelled_out(parse(project.files.source(path).text)))
        kept_graphs.note(found)
        return {name: given.parts for name, given in replaying(found).items()}

    return project.files.table(f"outputs given by {path}", read)
