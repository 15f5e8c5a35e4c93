"""Finds the class of an unannotated parameter by the parameter's name: `mailbox` stands for `Mailbox`, `registry` for
`TableRegistry`.

The class must be in the same folder. It must be the only class there with a matching name, and must define every
attribute of the parameter that the code uses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from graphsafe.scan.symbols.index import FunctionFacts
from graphsafe.scan.symbols.project import Project, is_module_base
from graphsafe.scan.symbols.project_files import Files

MAX_FILES = 40
"The largest number of files in a folder. In larger folders, names are not unique enough."
_CLASS = re.compile(rb"^class (\w+)", re.M)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")


def class_named(project: Project, ref: str, facts: FunctionFacts, name: str) -> str | None:
    """Return the class that the name of a function's parameter stands for, or None."""
    path, files = ref.partition("::")[0], project.files

    def find() -> str | None:
        folder = os.path.dirname(path)
        found = files.table(("classes of a folder", folder), lambda: _in_folder(files, folder)).get(name.strip("_"), ())
        asked = _asked(project, path, facts, name) if len(found) == 1 else set()
        return found[0] if asked and _answers(project, found[0], asked) else None

    return files.table(("class of a parameter", ref, name), find)


def _in_folder(files: Files, folder: str) -> Mapping[str, Sequence[str]]:
    """Return the classes of a folder's files. The keys are the last words of the classes' names, joined by
    underscores."""
    paths = files.table("files by folder", lambda: _folders(files)).get(folder, ())
    classes: dict[str, list[str]] = {}
    for path in sorted(paths) if len(paths) <= MAX_FILES else ():
        for name in _CLASS.findall(files.data(path) or b""):
            for words in _endings(name.decode()):
                classes.setdefault(words, []).append(f"{path}::{name.decode()}")
    return classes


def _folders(files: Files) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for path in files.names:
        found.setdefault(os.path.dirname(path), []).append(path)
    return found


def _asked(project: Project, path: str, facts: FunctionFacts, name: str) -> set[str]:
    """Return the attributes of a parameter that the function uses. If the function stores the parameter in `self`,
    include the attributes that other methods use of the stored object."""
    source = project.files.source(path)
    text = "\n".join(source.lines_of(facts.line, facts.end_line))
    asked = set(re.findall(rf"(?<![\w.]){name}\.(\w+)", text))
    methods = project.own_methods(f"{path}::{facts.owner}") if facts.owner is not None else ()
    kept = rf"\bself\.(\w+)\b[^=\n]{{0,200}}=[^=\n]{{0,200}}\b{name}\b\s*(?:,|$)"
    for attribute in re.findall(kept, text, re.M) if methods else ():
        for method in filter(None, map(project.function_facts, methods)):
            body = "\n".join(source.lines_of(method.line, method.end_line))
            asked |= set(re.findall(rf"\bself\.{attribute}\.(\w+)", body))
    return asked


def _answers(project: Project, ref: str, asked: set[str]) -> bool:
    """Return whether a class defines all these attributes; for a torch module, one is enough."""
    defined: set[str] = set()
    for _, facts in project.own_classes(ref):
        defined |= {*facts.methods, *facts.writers, *facts.fields}
    is_open = any(map(is_module_base, project.mro(ref)))
    return bool(asked & defined) and (is_open or asked <= defined)


def _endings(name: str) -> Iterator[str]:
    words = [word.lower() for word in _WORD.findall(name)]
    for i in range(len(words)):
        yield "_".join(words[i:])
