"""The methods that a call may run if only an annotation gives the receiver's class, including methods of subclasses."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from graphsafe.scan.symbols.blocks import Definition
from graphsafe.scan.symbols.index import ClassFacts
from graphsafe.scan.symbols.project import Project
from graphsafe.scan.symbols.project_files import Files

_CLASS = re.compile(rb"class[ \t]+(\w+)[ \t]*(?:\[[^\[\]]*\])?\(")
"""Matches a class definition up to its bases. The pattern is not anchored at the start of a line. So the search looks
for the word `class` first, and is ten times as fast. The pattern may also match prose."""
_NAME = re.compile(rb"(?<!\w)(\w+)[ \t]*(?:\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\][ \t]*)?(?:,|$|\n)")
"Matches a base. The brackets of the base may contain one more level of brackets: `Base[dict[str, int], T]`."

_TESTS = re.compile(r"/(unit_?)?tests?/([^:]*/)?[^:/]*\.py::|/(tests?_\w+|\w+_tests?(_\w+)?|conftest)\.py::")
"Matches definitions in test files."


class Overrides:
    """Finds methods of subclasses. A search in the files' text comes first, so that only files with a likely subclass
    are indexed."""

    def __init__(self, project: Project, in_scope: Callable[[str], bool]) -> None:
        self._project = project
        self._in_scope = in_scope
        "A function that returns whether a file is in scope. Other files are left out."
        self._methods: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {}
        self._with_attribute: dict[tuple[str, str], tuple[str, ...]] = {}

    def of(self, ref: str, name: str) -> tuple[tuple[str, str], ...]:
        """Return subclasses of `ref` that have their own method `name`, each with the method, sorted by path."""
        if (ref, name) not in self._methods:
            self._methods[ref, name] = tuple(self._find(ref, name))
        return self._methods[ref, name]

    def with_attribute(self, ref: str, name: str) -> tuple[str, ...]:
        """Return subclasses of `ref` that have their own attribute or property `name`, sorted by path."""
        if (ref, name) not in self._with_attribute:
            having = self._having(ref, lambda cls: name in cls.writers or name in cls.fields or name in cls.methods)
            self._with_attribute[ref, name] = tuple(one for one, _ in having)
        return self._with_attribute[ref, name]

    def _find(self, ref: str, name: str) -> Iterator[tuple[str, str]]:
        for subclass, facts in self._having(ref, lambda cls: name in cls.methods):
            if is_of_tests(ref) or not is_of_tests(subclass):  # only tests make objects of classes in tests
                yield subclass, f"{subclass.partition('::')[0]}::{facts.methods[name]}"

    def _having(self, ref: str, is_wanted: Callable[[ClassFacts], bool]) -> Iterator[tuple[str, ClassFacts]]:
        """Yield the subclasses whose facts satisfy `is_wanted`, each with its facts, sorted by path."""
        for subclass in sorted(self._below(ref)):
            facts = self._project.class_facts(subclass)
            if facts is not None and is_wanted(facts) and ref in self._project.mro(subclass):
                yield subclass, facts

    def _below(self, ref: str) -> set[str]:
        """Return the subclasses of `ref`. They are found by the names of their bases.

        If a class name is not unique, the result contains too many classes.
        """
        files = self._project.files
        subclasses = subclasses_by_base(files)
        found: set[str] = set()
        seen: set[tuple[str, str]] = set()
        names = [ref.rpartition("::")[2].rpartition(".")[2]]
        while names:
            base = names.pop()
            for path, name in subclasses.get(base, ()):
                if (path, name) in seen:
                    continue
                seen.add((path, name))
                in_scope = self._in_scope(path)
                classes = self._named(path, name) if in_scope else []
                found.update(classes)
                if classes or not in_scope:
                    names.append(name)
        return found

    def _named(self, path: str, name: str) -> list[str]:
        """Return the classes of a file that have this name, including nested ones."""
        classes = self._project.classes(path)
        return [f"{path}::{qualified}" for qualified in classes if qualified.rpartition(".")[2] == name]


def is_of_tests(ref: str) -> bool:
    return _TESTS.search(ref) is not None


def subclasses_by_base(files: Files) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Map the name of each base to the path and name of each class that lists this base."""
    return files.found_by("subclasses", subclasses_in)


def subclasses_in(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the names of the bases that a file's classes list, each with the name of the class."""
    end = 0
    for match in _CLASS.finditer(data):
        if match.start() < end:
            continue
        end = data.find(b")", match.end())
        if end < 0:
            return
        for base in _NAME.findall(data, match.end(), end):
            yield base.decode(), match.group(1).decode()


def is_abstract(node: Definition) -> bool:
    """Return whether a method leaves its work to subclasses: `...`, `pass`, a docstring, or NotImplementedError."""
    for statement in node.body:
        if isinstance(statement, ast.Pass):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Raise) and "NotImplemented" in ast.dump(statement):
            continue
        return False
    return True
