"""Methods of imported classes that return an output of a graph without a copy: `runner.step(x)`.

The file that defines such a class and the file that keeps the result are seldom the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphsafe.scan.hazards import kept_graphs
from graphsafe.scan.hazards.graph_tensors import tables
from graphsafe.scan.hazards.outputs.givers import Parts, given_by_replaying
from graphsafe.scan.hazards.own_names import spelled_out
from graphsafe.scan.sources.source import parse
from graphsafe.scan.symbols.project import Project


def methods(project: Project, path: str) -> Mapping[str, Parts]:
    """Return the methods of classes that a file imports, as `Runner.step`, each with the parts of its result that are
    outputs."""
    found: dict[str, Parts] = {}
    for name, ref in _classes(project, path):
        defined, _, cls = ref.partition("::")
        for method, parts in _given_in(project, defined).items():
            if method.rpartition(".")[0] == cls:
                found[f"{name}.{method.rpartition('.')[2]}"] = parts
    return found


def are_held(project: Project, path: str) -> bool:
    """Return whether a file imports a class from a file that replays graphs."""
    return next(_classes(project, path), None) is not None


def _classes(project: Project, path: str) -> Iterator[tuple[str, str]]:
    file = project.files.index(path)
    for name in file.imports if file is not None else ():
        binding = project.resolve(file, name) if file is not None and name[:1].isupper() else None
        if binding is not None and binding.kind == "class":
            defined = project.files.index(binding.ref.partition("::")[0])
            if defined is not None and defined.replays and defined.path != path:
                yield name, binding.ref


def _given_in(project: Project, path: str) -> Mapping[str, Parts]:
    found = tables(spelled_out(parse(project.files.source(path).text)))
    kept_graphs.note(found)
    return given_by_replaying(found)
