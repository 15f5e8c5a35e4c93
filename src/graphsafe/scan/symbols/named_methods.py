"""Methods that a call on an unknown object means by their name: `dataset.get_gpu_batch_with_intrinsics(batch)`.

A registry, a factory or another package makes the object, so no code shows its class. A name of several words is told
by few classes of a project, and no library has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graphsafe.scan.symbols.project import Project, is_module_base

_METHOD = re.compile(rb"^[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)\(\s*self\b", re.M)
_PLAIN_BASE = re.compile(r"(.*\.)?(ABC|object|Protocol|Generic|Enum|Dataset|IterableDataset|Function)$|torch\.")
"Bases without such methods of their own. Any other library's class may be the one that a call means."
_TESTS = re.compile(r"(^|/)((unit_?)?tests?|testing|examples?|benchmarks?)/|(^|/)(test_\w+|\w+_test|conftest)\.py$")
_WORDS = 3
"The least number of words in a name that tells its class."
_CLASSES = 6
"The most classes with methods of one name that a call may mean."


class NamedMethods:
    def __init__(self, project: Project) -> None:
        self._project = project
        self._methods: dict[str, Sequence[tuple[str, str]]] = {}

    def of(self, name: str) -> Sequence[tuple[str, str]]:
        """Return the classes whose method a name means, each with the method; none if the name does not tell."""
        # Hooks of trainers log and save from time to time.
        if name.startswith(("_", "on_")) or len(list(filter(None, name.split("_")))) < _WORDS:
            return ()
        if name not in self._methods:
            self._methods[name] = self._find(name)
        return self._methods[name]

    def _find(self, name: str) -> Sequence[tuple[str, str]]:
        paths = self._project.files.table("methods by name", self._paths).get(name.encode(), ())
        found = []
        for path in paths if len(paths) <= _CLASSES else ():
            for qualified in self._project.classes(path):
                facts = self._project.class_facts(f"{path}::{qualified}")
                if facts is not None and name in facts.methods and not self._is_of_library(f"{path}::{qualified}"):
                    found.append((f"{path}::{qualified}", f"{path}::{facts.methods[name]}"))
        return tuple(found) if len(found) <= _CLASSES else ()

    def _is_of_library(self, ref: str) -> bool:
        return not all(
            "::" in base or is_module_base(base) or _PLAIN_BASE.match(base) for base in self._project.mro(ref)
        )

    def _paths(self) -> Mapping[bytes, Sequence[str]]:
        found: dict[bytes, list[str]] = {}
        for path in sorted(self._project.files.paths):
            for name in dict.fromkeys(_METHOD.findall(self._project.files.data(path) or b"")):
                if name.count(b"_") >= _WORDS - 1 and not _TESTS.search(path):
                    found.setdefault(name, []).append(path)
        return found
