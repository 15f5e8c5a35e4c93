"""Methods of imported classes that return an output of a graph without a copy: `runner.step(x)`.

The file that defines such a class seldom keeps the result itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from graphsafe.scan.hazards import kept_graphs
from graphsafe.scan.hazards.graph_tensors import tables
from graphsafe.scan.hazards.outputs.givers import Parts, replaying
from graphsafe.scan.hazards.same_objects import spelled_out
from graphsafe.scan.sources.source import parse
from graphsafe.scan.symbols.project import Project
from graphsafe.scan.symbols.project_files import Files

_CLASS = re.compile(rb"^\s*class\s+(\w+)", re.M)


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
