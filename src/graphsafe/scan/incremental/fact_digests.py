"""What stands for what a fact says today, to compare it with what it said when an answer rested on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from operator import itemgetter

from graphsafe.scan.domain.summary import Field
from graphsafe.scan.domain.uses import Fact
from graphsafe.scan.domain.values import Value
from graphsafe.scan.incremental.encoding import Unkept
from graphsafe.scan.incremental.overviews import class_parts, declarations, overview, words
from graphsafe.scan.roots.candidate_files import RootPatterns
from graphsafe.scan.sources.source import Unreadable, digest
from graphsafe.scan.symbols.custom_ops import functions_by_operator
from graphsafe.scan.symbols.default_device import default_device_covers
from graphsafe.scan.symbols.index import FileIndex
from graphsafe.scan.symbols.overrides import subclasses_by_base
from graphsafe.scan.symbols.project import Project
from graphsafe.scan.symbols.project_files import Files

CONSTRUCTIONS = "constructions"
OF_FILES = frozenset("file function class classes imports statement body text words overview search".split())
"Kinds of facts about one file alone, which is named first."
NOTHING = ""


class FactDigests:
    def __init__(self, files: Files, contents: Mapping[str, str], root_patterns: RootPatterns) -> None:
        """`contents`: the digest of every file that can be read."""
        self._files = files
        self._contents = contents
        self._root_patterns = root_patterns
        self._packages = frozenset(name.partition(".")[0] for name in files.modules)
        self._statements: dict[str, Mapping[tuple[int, int], tuple[str, str]]] = {}
        self._project = Project(files)
        self._constructed: dict[str, str] = {}
        self._looked_up: set[int] = set()
        "What this uses of the project is not what the scan uses."

    def learn(self, constructions: Mapping[Field, Sequence[Value]]) -> None:
        """What the first round has shown."""
        fields: dict[str, list[object]] = {}
        for (cls, name), values in sorted(constructions.items(), key=itemgetter(0)):
            fields.setdefault(cls, []).append((name, values))
        self._constructed = {cls: _of_value(found) for cls, found in fields.items()}

    def changed(
        self,
        facts: Iterable[tuple[Fact, int, str]],
        edited: Iterable[str],
        came_or_went: Set[str],
        index_before: Callable[[str], FileIndex | None],
    ) -> Iterator[Fact]:
        """Those of the facts that say something else now, but for constructions, which nobody knows yet.

        `edited`: files that hold something else than when the facts were true, or are another module. `index_before`
        gives the index of such a file at that time, where that is known.
        """
        others: list[tuple[Fact, str]] = []
        is_elsewhere = bool(came_or_went) or any(self._means_other(path, index_before(path)) for path in edited)
        touched = {*came_or_went, *edited}
        for fact, _, digest_before in facts:
            if fact[0] not in OF_FILES:
                others.append((fact, digest_before))
            elif fact[1] in touched and self.of(fact) != digest_before:
                # Which classes and operators there are is read off the texts of all files together.
                is_elsewhere = is_elsewhere or fact[0] == "words"
                yield fact
        for fact, digest_before in others if is_elsewhere else ():
            if fact[0] != CONSTRUCTIONS and self.of(fact) != digest_before:
                yield fact

    def _means_other(self, path: str, before: FileIndex | None) -> bool:
        """Whether names may mean something else, since a file declares something else than before."""
        now = self._files.indexed(path)
        if now is None or before is None:
            return True
        return declarations(now) != declarations(before)

    def changed_constructions(self, facts: Iterable[tuple[Fact, int, str]]) -> list[Fact]:
        return [fact for fact, _, before in facts if fact[0] == CONSTRUCTIONS and self.of(fact) != before]

    @property
    def fact_count(self) -> int:
        """How many facts were noted."""
        return len(self._files.uses.facts)

    def lasting(self, number: int) -> Fact:
        """The fact of this number without lines: an edit elsewhere in the file leaves it alone."""
        fact = self._files.uses.facts[number]
        if fact[0] != "lines":
            return fact
        _, path, first, last = fact
        assert isinstance(path, str) and isinstance(first, int) and isinstance(last, int)
        if path not in self._statements:
            index = self._files.indexed(path)
            self._statements[path] = statements(index) if index is not None else {}
        kind, name = self._statements[path].get((first, last), ("text", ""))
        return (kind, path, name) if name else (kind, path)

    def of(self, fact: Fact) -> str:
        """For a fact that is `lasting`. Raises TypeError, ValueError or KeyError for one that is none."""
        uses = self._files.uses
        outer, uses.now = uses.now, self._looked_up
        try:
            return _OF[str(fact[0])](self, *fact[1:])
        finally:
            uses.now = outer

    def _index(self, path: str) -> FileIndex | None:
        return self._files.indexed(path) if path in self._files.names else None

    def _file(self, path: str) -> str:
        index = self._index(path)
        return f"{index.module} {index.is_package}" if index is not None else NOTHING

    def _function(self, path: str, name: str) -> str:
        index = self._index(path)
        facts = index.functions.get(name) if index is not None else None
        if index is None or facts is None:
            return NOTHING
        # Whether a function is cold is told by the name of its module, too.
        own = facts.decorators, facts.owner, facts.mark, facts.captures, facts.hands_over, facts.by_type
        return _of_value((index.module, own))

    def _class(self, path: str, name: str) -> str:
        index = self._index(path)
        facts = index.classes.get(name) if index is not None else None
        return _of_value(class_parts(facts)) if facts is not None else NOTHING

    def _classes(self, path: str) -> str:
        index = self._index(path)
        return _of_value([*index.classes]) if index is not None else NOTHING

    def _imports(self, path: str) -> str:
        index = self._index(path)
        return _of_value([*index.imports.values()]) if index is not None else NOTHING

    def _statement(self, path: str, name: str) -> str:
        index = self._index(path)
        return index.texts.get(name, NOTHING) if index is not None else NOTHING

    def _name(self, path: str, name: str) -> str:
        index = self._index(path)
        return _of_value(self._project.resolve(index, name) if index is not None else None)

    def _bases(self, path: str, name: str = "") -> str:
        order = self._project.mro(f"{path}::{name}") if path in self._files.names else ()
        return _of_value([(base, self._class(*base.split("::", 1)) if "::" in base else "") for base in order])

    def _body(self, path: str, name: str) -> str:
        index = self._index(path)
        facts = index.functions.get(name) if index is not None else None
        return facts.digest if facts is not None else NOTHING

    def _text(self, path: str) -> str:
        return self._contents.get(path, NOTHING)

    def _words(self, path: str) -> str:
        data = self._files.data(path) if path in self._contents else None
        return words(data, self._root_patterns) if data is not None else NOTHING

    def _overview(self, path: str) -> str:
        index = self._index(path)
        data = self._files.data(path) if path in self._contents else None
        return overview(data, index, self._root_patterns) if data is not None and index is not None else NOTHING

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

    def _default_device(self, path: str) -> str:
        return _of_value(default_device_covers(self._files, path))

    def _constructions(self, cls: str) -> str:
        return self._constructed.get(cls, NOTHING)

    def first_line(self, ref: str) -> int:
        """Of the function `path::name`, or of the one around it. Raises Unkept where there is none.

        Whoever uses what stands in no function uses the whole text.
        """
        name = ref.partition("::")[2]
        if not name or name.startswith("<lambda>"):
            return 0
        facts = self._project.function_around(ref)
        if facts is None:
            raise Unkept(f"no function: {ref}")
        return facts.line


def statements(index: FileIndex) -> dict[tuple[int, int], tuple[str, str]]:
    """First and last line -> kind and name of the fact that is the text of the statement there."""
    found: dict[tuple[int, int], tuple[str, str]] = {}
    for cls in index.classes.values():
        found.update((span, ("statement", f"{cls.name}.{name}")) for name, span in cls.fields.items())
    for name, spans in index.assigns.items():
        found.update((span, ("statement", name)) for span in spans)
    found.update(((facts.line, facts.end_line), ("body", facts.name)) for facts in index.functions.values())
    return found


def _of_value(value: object) -> str:
    return digest(repr(value).encode("utf-8", "surrogatepass"))[:16] if value else NOTHING


_OF: Mapping[str, Callable[..., str]] = {
    "file": FactDigests._file,
    "function": FactDigests._function,
    "class": FactDigests._class,
    "classes": FactDigests._classes,
    "imports": FactDigests._imports,
    "statement": FactDigests._statement,
    "body": FactDigests._body,
    "text": FactDigests._text,
    "words": FactDigests._words,
    "overview": FactDigests._overview,
    "search": FactDigests._search,
    "name": FactDigests._name,
    "bases": FactDigests._bases,
    "module": FactDigests._module,
    "package": FactDigests._package,
    "subclasses": FactDigests._subclasses,
    "operator": FactDigests._operator,
    "default-device": FactDigests._default_device,
    CONSTRUCTIONS: FactDigests._constructions,
}
