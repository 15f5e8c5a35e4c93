"""What stands for what a fact says today, to compare it with what it said when an answer rested on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from graphsafe.scan.domain.summary import Field
from graphsafe.scan.domain.uses import Fact
from graphsafe.scan.domain.values import Value
from graphsafe.scan.incremental.encoding import Unkept
from graphsafe.scan.sources.source import Unreadable, digest
from graphsafe.scan.symbols.custom_ops import functions_by_operator
from graphsafe.scan.symbols.index import FunctionFacts
from graphsafe.scan.symbols.overrides import subclasses_by_base
from graphsafe.scan.symbols.project import Project
from graphsafe.scan.symbols.project_files import Files

CONSTRUCTIONS = "constructions"
NOTHING = ""


class FactDigests:
    def __init__(self, files: Files, contents: Mapping[str, str]) -> None:
        """`contents`: the digest of every file that can be read."""
        self._files = files
        self._contents = contents
        self._packages = frozenset(name.partition(".")[0] for name in files.modules)
        self._names: dict[str, dict[tuple[int, int], str]] = {}
        self._project = Project(files)
        self._constructed: dict[str, str] = {}

    def learn(self, constructions: Mapping[Field, Sequence[Value]]) -> None:
        """What the first round has shown."""
        fields: dict[str, list[object]] = {}
        for (cls, name), values in sorted(constructions.items(), key=itemgetter(0)):
            fields.setdefault(cls, []).append((name, values))
        self._constructed = {cls: _of_value(found) for cls, found in fields.items()}

    def lasting(self, number: int) -> Fact:
        """The fact of this number without lines: an edit elsewhere in the file leaves it alone."""
        fact = self._files.uses.facts[number]
        if fact[0] != "lines":
            return fact
        _, path, first, last = fact
        assert isinstance(path, str) and isinstance(first, int) and isinstance(last, int)
        if path not in self._names:
            self._names[path] = self._statements(path)
        name = self._names[path].get((first, last))
        return ("text", path) if name is None else ("body", path, name) if name else ("outline", path)

    def _statements(self, path: str) -> dict[tuple[int, int], str]:
        """First and last line -> the function that stands there; no name for what the outline holds."""
        index = self._files.index(path)
        if index is None:
            return {}
        spans = [span for cls in index.classes.values() for span in cls.fields.values()]
        spans += [span for bound in index.assigns.values() for span in bound]
        return {
            **dict.fromkeys(spans, ""),
            **{(facts.line, facts.end_line): name for name, facts in index.functions.items()},
        }

    def of(self, fact: Fact) -> str:
        """For a fact that is `lasting`. Raises TypeError, ValueError or KeyError for one that is none."""
        kind, *about = fact
        return _OF[str(kind)](self, *about)

    def _outline(self, path: str) -> str:
        index = self._files.index(path) if path in self._files.names else None
        return index.outline if index is not None else NOTHING

    def _name(self, path: str, name: str) -> str:
        index = self._files.index(path) if path in self._files.names else None
        return _of_value(self._project.resolve(index, name) if index is not None else None)

    def _bases(self, ref: str) -> str:
        order = self._project.mro(ref) if ref.partition("::")[0] in self._files.names else ()
        return _of_value([(base, self._outline(base.partition("::")[0]) if "::" in base else "") for base in order])

    def _body(self, path: str, name: str) -> str:
        index = self._files.index(path) if path in self._files.names else None
        facts = index.functions.get(name) if index is not None else None
        return facts.digest if facts is not None else NOTHING

    def _text(self, path: str) -> str:
        return self._contents.get(path, NOTHING)

    def _search(self, path: str, pattern: str, flags: int) -> str:
        if path not in self._files.names:
            return NOTHING
        try:
            return _of_value(self._files.search(path, re.compile(pattern, flags)))
        except (KeyError, Unreadable):
            return NOTHING

    def _module(self, name: str) -> str:
        return _of_value(self._files.modules.get(name))

    def _package(self, name: str) -> str:
        return str(name in self._packages)

    def _subclasses(self, name: str) -> str:
        return _of_value(subclasses_by_base(self._files).get(name))

    def _operator(self, name: str) -> str:
        return _of_value(functions_by_operator(self._files).get(name))

    def _constructions(self, cls: str) -> str:
        return self._constructed.get(cls, NOTHING)

    def first_line(self, ref: str) -> int:
        """Of the function `path::name`, or of the one around it. Raises Unkept where there is none.

        Whoever uses what stands in no function, or in a lambda, uses the whole text.
        """
        path, _, name = ref.partition("::")
        if not name or name.startswith("<lambda>"):
            return 0
        index = self._files.index(path)
        facts: FunctionFacts | None = None
        while name and index is not None and facts is None:
            facts = index.functions.get(name)
            name = name.rpartition(".")[0]
        if facts is None:
            raise Unkept(f"no function: {ref}")
        return facts.line


def _of_value(value: object) -> str:
    return digest(repr(value).encode("utf-8", "surrogatepass")) if value else NOTHING


_OF: Mapping[str, Callable[..., str]] = {
    "outline": FactDigests._outline,
    "name": FactDigests._name,
    "bases": FactDigests._bases,
    "body": FactDigests._body,
    "text": FactDigests._text,
    "search": FactDigests._search,
    "module": FactDigests._module,
    "package": FactDigests._package,
    "subclasses": FactDigests._subclasses,
    "operator": FactDigests._operator,
    CONSTRUCTIONS: FactDigests._constructions,
}
