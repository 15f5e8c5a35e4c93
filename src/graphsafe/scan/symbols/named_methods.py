"""Methods that a call on an unknown object means by their name: `dataset.get_gpu_batch_with_intrinsics(batch)`.

A registry, a factory or another package makes the object, so no code shows its class. But few classes of a project have
a method whose name has several words, and no library has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from graphsafe.scan.symbols.project import Project, is_module_base

_METHOD = re.compile(rb"^[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)\(\s*self\b", re.M)
_PLAIN_BASE = re.compile(r"(.*\.)?(ABC|object|Protocol|Generic|Enum|Dataset|IterableDataset|Function)$|torch\.")
"Bases without such methods of their own. Any other library's class may be the one that a call means."
_TESTS = re.compile(r"(^|/)((unit_?)?tests?|testing|examples?|benchmarks?)/|(^|/)(test_\w+|\w+_test|conftest)\.py$")
_WORDS = 3
"The least number of words in a name that tells its class."
_CLASSES = 6
"The most classes with methods of one name that a call may mean."


def methods_named(project: Project, name: str) -> Sequence[tuple[str, str]]:
    """Return the classes whose method a name means, each with the method; none if the name does not tell."""
    # Hooks of trainers log and save from time to time.
    if name.startswith(("_", "on_")) or len(list(filter(None, name.split("_")))) < _WORDS:
        return ()
    paths = project.files.table("methods by name", lambda: _paths(project)).get(name.encode(), ())
    if len(paths) > _CLASSES:
        return ()
    found = project.files.table(f"methods named {name}", lambda: tuple(_in_files(project, paths, name)))
    return found if len(found) <= _CLASSES else ()


def _in_files(project: Project, paths: Sequence[str], name: str) -> Iterator[tuple[str, str]]:
    for path in paths:
        for qualified in project.classes(path):
            facts = project.class_facts(f"{path}::{qualified}")
            if facts is not None and name in facts.methods and _is_own(project, f"{path}::{qualified}"):
                yield f"{path}::{qualified}", f"{path}::{facts.methods[name]}"


def _is_own(project: Project, ref: str) -> bool:
    """Return whether a class has no library's class above it that may have the method as well."""
    return all("::" in base or is_module_base(base) or _PLAIN_BASE.match(base) for base in project.mro(ref))


def _paths(project: Project) -> Mapping[bytes, Sequence[str]]:
    found: dict[bytes, list[str]] = {}
    for path in sorted(project.files.paths):
        for name in dict.fromkeys(_METHOD.findall(project.files.data(path) or b"")):
            if name.count(b"_") >= _WORDS - 1 and not _TESTS.search(path):
                found.setdefault(name, []).append(path)
    return found
