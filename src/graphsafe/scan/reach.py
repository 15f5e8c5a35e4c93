"""Which files of a project can lead to given ones: those that import them, and whatever imports those.

Read off the text of the import statements, so that for one file of a large project few others need to be parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from graphsafe.scan.files import Files
from graphsafe.scan.project import Project

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]+))", re.M
)
_NAME = re.compile(rb"(?:^|[(,\n])[ \t]*([\w.*]+)")
_REGISTERED = re.compile(rb"custom_op\(|op_name|\.impl\(")
"Operators are called by a name that no import tells."


def reaching(files: Files, given: Sequence[str]) -> frozenset[str]:
    """The given files and all that may lead to them; every file where imports do not tell."""
    sources = {path: data for path in files.paths if (data := _read(path)) is not None}
    if any(_REGISTERED.search(sources.get(path, b"")) for path in given):
        return frozenset(files.paths)
    importers: dict[str, set[str]] = {}
    for path, data in sources.items():
        for module in _imported(data, *files.names[path]):
            for imported in files.modules.get(module, ()):
                importers.setdefault(imported, set()).add(path)
    seen = set(given) | set(_bases(files, given))
    stack = list(seen)
    while stack:
        for path in importers.get(stack.pop(), ()):
            if path not in seen:
                seen.add(path)
                stack.append(path)
    return frozenset(seen)


def _bases(files: Files, given: Iterable[str]) -> Iterator[str]:
    """Where the base classes stand: a method may be called on a value that is only known to be of the base."""
    project = Project(files)
    for path in given:
        file = project.index(path)
        for name in file.classes if file is not None else ():
            yield from (base.partition("::")[0] for base in project.mro(f"{path}::{name}") if "::" in base)


def _imported(data: bytes, module: str, is_package: bool) -> Iterator[str]:
    for dots, base, names, plain in _IMPORT.findall(data):
        if plain:
            for name in _NAME.findall(plain):
                yield from _with_parents(name.decode("utf-8", "replace"))
            continue
        target = base.decode("utf-8", "replace")
        if dots:
            parts = module.split(".")
            keep = len(parts) - len(dots) + (1 if is_package else 0)
            target = ".".join([*parts[: max(keep, 0)], *([target] if target else [])])
        yield from _with_parents(target)
        for name in _NAME.findall(names):
            yield f"{target}.{name.decode('utf-8', 'replace')}"


def _with_parents(dotted: str) -> Iterator[str]:
    """`import a.b.c` runs `a` and `a.b` as well."""
    parts = dotted.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None
