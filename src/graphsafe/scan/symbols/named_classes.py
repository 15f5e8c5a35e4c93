"""Finds the classes of parameters without an annotation by the parameters' names: `mailbox` stands for `Mailbox`,
`registry` for `TableRegistry`.

The class must be in the same folder, it must be the only class there with a matching name, and it must define every
attribute of the parameter that the code uses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from graphsafe.scan.symbols.index import FunctionFacts
from graphsafe.scan.symbols.project import Project, is_module_base

MAX_FILES = 40
"In a folder with more files than this, names are not unique enough."
_CLASS = re.compile(rb"^class (\w+)", re.M)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")


class NamedClasses:
    def __init__(self, project: Project) -> None:
        self._project = project
        self._classes: dict[str, Mapping[str, Sequence[str]]] = {}
        "Folder -> the last words of a class name, in lower case -> the classes."
        self._known: dict[tuple[str, str], str | None] = {}

    def of(self, ref: str, facts: FunctionFacts, name: str) -> str | None:
        """Return the class for which a parameter of a function stands, or None."""
        key = ref, name
        if key not in self._known:
            self._known[key] = self._find(ref.partition("::")[0], facts, name)
        return self._known[key]

    def _find(self, path: str, facts: FunctionFacts, name: str) -> str | None:
        found = self._in_folder(os.path.dirname(path)).get(name.strip("_"), ())
        asked = self._asked(path, facts, name) if len(found) == 1 else set()
        return found[0] if asked and self._answers(found[0], asked) else None

    def _in_folder(self, folder: str) -> Mapping[str, Sequence[str]]:
        """Return the classes of a folder's files, by the last words of their names, joined by underscores."""
        if folder not in self._classes:
            paths = self._project.files.table("folders", self._folders).get(folder, ())
            classes: dict[str, list[str]] = {}
            for path in sorted(paths) if len(paths) <= MAX_FILES else ():
                for name in _CLASS.findall(self._project.files.data(path) or b""):
                    for words in _endings(name.decode()):
                        classes.setdefault(words, []).append(f"{path}::{name.decode()}")
            self._classes[folder] = classes
        return self._classes[folder]

    def _folders(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for path in self._project.files.names:
            found.setdefault(os.path.dirname(path), []).append(path)
        return found

    def _asked(self, path: str, facts: FunctionFacts, name: str) -> set[str]:
        """Return the attributes of the parameter that the function uses, or that its class uses through the attribute
        in which it stores the parameter."""
        source = self._project.files.source(path)
        text = "\n".join(source.lines_of(facts.line, facts.end_line))
        asked = set(re.findall(rf"(?<![\w.]){name}\.(\w+)", text))
        methods = self._project.own_methods(f"{path}::{facts.owner}") if facts.owner is not None else ()
        kept = rf"\bself\.(\w+)\b[^=\n]{{0,200}}=[^=\n]{{0,200}}\b{name}\b\s*(?:,|$)"
        for attribute in re.findall(kept, text, re.M) if methods else ():
            for method in filter(None, map(self._project.function_facts, methods)):
                body = "\n".join(source.lines_of(method.line, method.end_line))
                asked |= set(re.findall(rf"\bself\.{attribute}\.(\w+)", body))
        return asked

    def _answers(self, ref: str, asked: set[str]) -> bool:
        """Return whether a class defines all used attributes of its objects. A torch module may have further
        attributes."""
        defined: set[str] = set()
        for _, facts in self._project.own_classes(ref):
            defined |= {*facts.methods, *facts.writers, *facts.fields}
        is_open = any(map(is_module_base, self._project.mro(ref)))
        return bool(asked & defined) and (is_open or asked <= defined)


def _endings(name: str) -> Iterator[str]:
    words = [word.lower() for word in _WORD.findall(name)]
    for i in range(len(words)):
        yield "_".join(words[i:])
