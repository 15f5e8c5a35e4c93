"""A project as Python would import it: modules, what their names mean, classes and their bases."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from sys import intern
from typing import Literal

from graphsafe.scan.sources.source import Source, Unreadable
from graphsafe.scan.symbols.index import ClassFacts, FileIndex, FunctionFacts, Module
from graphsafe.scan.symbols.project_files import Files

MODULE_SUFFIXES = ("Module", "PreTrainedModel", "LightningModule", "ModelMixin")
Kind = Literal["module", "class", "function", "assign", "lib"]


@dataclass(frozen=True, slots=True)
class Binding:
    """What a global name stands for."""

    kind: Kind
    name: str
    "Qualified name within the file; the dotted path for `lib` and `module`."
    path: str = ""

    @property
    def ref(self) -> str:
        """`path::Qual.name`; values and questions that name it share the text."""
        return intern(f"{self.path}::{self.name}")


@dataclass(frozen=True, slots=True)
class FilesRead:
    """What one process has found out about files, for another one."""

    indexes: Mapping[str, FileIndex | None]
    problems: Mapping[str, Unreadable]
    rewritten: Set[str]


class Project:
    """Resolves names across the files of a project. Answers are memoised, since files do not change during a scan."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.asked_bytes = 0
        "The bytes of all modules that were looked into, as far as they are in memory."
        self._asked: set[str] = set()
        self._uses = files.uses
        self._modules = files.modules
        self._packages = frozenset(name.partition(".")[0] for name in files.modules)
        # Each answer with the number of the fact that it is, or that it rests on.
        self._mros: dict[str, tuple[tuple[str, ...], int]] = {}
        self._bindings: dict[tuple[str, str, str], tuple[Binding | None, int]] = {}
        self._classes: dict[str, tuple[ClassFacts | None, int]] = {}
        self._functions: dict[str, tuple[FunctionFacts | None, int]] = {}
        self._assigned: dict[tuple[str, str], tuple[Sequence[tuple[int, int]], int]] = {}
        self._methods: dict[object, dict[str, str | None]] = {}
        "Class, and the class after which to look where there is one -> name -> method."

    @property
    def paths(self) -> Iterable[str]:
        return self.files.paths

    def file(self, path: str) -> Module | None:
        """None where the file cannot be read."""
        self._uses.note("file", path)
        return self.files.indexed(path)

    def source(self, path: str) -> Source:
        """The source whose lines the index counts. Raises KeyError or Unreadable for a file that cannot be read."""
        return self.files.source(path)

    def statement(self, path: str, first: int, last: int) -> ast.stmt | None:
        """The statement on these lines; None where it does not stand alone."""
        return self.files.statement(path, first, last)

    # names

    def module(self, name: str, importer: str) -> Module | None:
        """The file that `import name` in `importer` means: of several, the one nearest to the importer."""
        candidates = self._modules.get(name)
        self._uses.note("module", name)
        if candidates is None:
            return None
        path = candidates[0]
        if len(candidates) > 1:
            path = min(candidates, key=lambda path: (-_shared(path, importer), path))
        if path not in self._asked:
            self._asked.add(path)
            self.asked_bytes += len(self.files.held.get(path, b""))
        return self.file(path)

    def resolve(self, file: Module, name: str, depth: int = 0) -> Binding | None:
        """What the global `name` means in `file`; None for a builtin or a name bound nowhere."""
        key = ("name", file.path, name)
        known = self._bindings.get(key)
        if known is None:
            fact = self._uses.number(key)
            self._bindings[key] = None, fact
            known = self._bindings[key] = self._uses.aside(lambda: self._resolve(file.path, name, depth)), fact
        self._uses.now.add(known[1])
        return known[0]

    def _resolve(self, path: str, name: str, depth: int) -> Binding | None:
        file = self.files.indexed(path)
        if file is None or depth > 12:
            return None
        if name in file.functions:
            return Binding("function", name, file.path)
        if name in file.classes:
            return Binding("class", name, file.path)
        if name in file.imports:
            return self.resolve_dotted(file.imports[name], file.path, depth + 1)
        if name in file.assigns:
            return Binding("assign", name, file.path)
        for star in file.stars:
            target = self.module(star, file.path)
            if target is not None and target.path != file.path:
                found = self.resolve(target, name, depth + 1)
                if found is not None:
                    return found
        return None

    def resolve_dotted(self, dotted: str, importer: str, depth: int = 0) -> Binding:
        """What an absolute dotted path means: a project's module, something in it, or a library's name."""
        parts = dotted.split(".")
        if parts[0] not in self._packages:
            self._uses.note("package", parts[0])
            return Binding("lib", intern(dotted))
        for split in range(len(parts), 0, -1):
            module = ".".join(parts[:split])
            if module not in self._modules:
                self._uses.note("module", module)
                continue
            file = self.module(module, importer)
            if file is None:
                break
            rest = parts[split:]
            if not rest:
                return Binding("module", intern(module), file.path)
            binding = self.resolve(file, rest[0], depth + 1)
            if binding is None:
                break
            return self.member(binding, rest[1:])
        return Binding("lib", intern(dotted))

    def member(self, binding: Binding, rest: list[str]) -> Binding:
        """What `binding.a.b` means."""
        for i, name in enumerate(rest):
            if binding.kind == "lib":
                return Binding("lib", intern(".".join([binding.name, *rest[i:]])))
            if binding.kind == "module":
                file = self.file(binding.path)
                found = self.resolve(file, name) if file is not None else None
                if found is None:
                    return self.resolve_dotted(f"{binding.name}.{name}", binding.path)
                binding = found
            elif binding.kind == "class":
                inner = f"{binding.name}.{name}"
                if self.class_facts(f"{binding.path}::{inner}") is not None:
                    binding = Binding("class", inner, binding.path)
                elif self.function_facts(f"{binding.path}::{inner}") is not None:
                    binding = Binding("function", inner, binding.path)
                else:
                    return Binding("assign", inner, binding.path)
            else:
                return Binding("assign", f"{binding.name}.{name}", binding.path)
        return binding

    def found(self, but: Set[str]) -> FilesRead:
        """For another process; that one has the indexes of `but` already."""
        files = self.files
        indexes = {path: index for path, index in files.indexes.items() if path not in but}
        return FilesRead(indexes, files.problems, files.rewritten)

    def learn(self, found: FilesRead) -> None:
        """Take over what another process has found."""
        self.files.indexes.update(found.indexes)
        self.files.problems.update(found.problems)
        self.files.rewritten |= found.rewritten

    def assigned(self, path: str, name: str) -> Sequence[tuple[int, int]]:
        """First and last lines of the statements at the module level of a file that bind a name, in order."""
        known = self._assigned.get((path, name))
        if known is None:
            file = self.files.indexed(path)
            spans = file.assigns.get(name, ()) if file is not None else ()
            known = self._assigned[path, name] = spans, self._uses.number(("statement", path, name))
        self._uses.now.add(known[1])
        return known[0]

    def imports(self, path: str) -> Collection[str]:
        """The dotted names that a file imports."""
        self._uses.note("imports", path)
        file = self.files.indexed(path)
        return file.imports.values() if file is not None else ()

    def classes(self, path: str) -> Collection[str]:
        """The qualified names of a file's classes."""
        self._uses.note("classes", path)
        file = self.files.indexed(path)
        return file.classes if file is not None else ()

    # classes and functions, by `path::Qual.name`

    def class_facts(self, ref: str) -> ClassFacts | None:
        known = self._classes.get(ref)
        if known is None:
            path, _, name = ref.partition("::")
            file = self.files.indexed(path)
            facts = file.classes.get(name) if file is not None else None
            known = self._classes[intern(ref)] = facts, self._uses.number(("class", path, name))
        self._uses.now.add(known[1])
        return known[0]

    def function_facts(self, ref: str) -> FunctionFacts | None:
        known = self._functions.get(ref)
        if known is None:
            path, _, name = ref.partition("::")
            file = self.files.indexed(path)
            facts = file.functions.get(name) if file is not None else None
            known = self._functions[intern(ref)] = facts, self._uses.number(("function", path, name))
        self._uses.now.add(known[1])
        return known[0]

    def function_around(self, ref: str) -> FunctionFacts | None:
        """The function `path::name`, or the one of which what is called so is a closure. No fact is noted.

        Whoever asks knows its text already.
        """
        path, _, name = ref.partition("::")
        index = self.files.indexed(path)
        while name and index is not None and name not in index.classes:
            if name in index.functions:
                return index.functions[name]
            name = name.rpartition(".")[0]
        return None

    def function_node(self, ref: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        facts = self.function_facts(ref)
        if facts is None:
            return None
        node = self.statement(ref.partition("::")[0], facts.line, facts.end_line)
        return node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None

    def mro(self, ref: str) -> tuple[str, ...]:
        """The class and its bases, nearest first: project classes as refs, others as dotted names."""
        known = self._mros.get(ref)
        if known is None:
            fact = self._uses.number(("bases", *ref.split("::", 1)))
            self._mros[ref] = (ref,), fact
            known = self._mros[ref] = self._uses.aside(lambda: self._linearise(ref)), fact
        self._uses.now.add(known[1])
        return known[0]

    def _linearise(self, ref: str) -> tuple[str, ...]:
        facts = self.class_facts(ref)
        if facts is None:
            return (ref,)
        file = self.file(ref.partition("::")[0])
        assert file is not None
        order = [ref]
        for base in facts.bases:
            head, *rest = base.split(".")
            binding = self.resolve(file, head)
            if binding is None:
                order.append(base)
                continue
            binding = self.member(binding, rest)
            if binding.kind == "class":
                order.extend(self.mro(binding.ref))
            else:
                order.append(binding.name if binding.kind == "lib" else base)
        # Depth first with the last of repeated bases kept: C3's order wherever C3 differs from plain depth first.
        unique = dict.fromkeys(reversed(order))
        return tuple(reversed(unique))

    def find_method(self, ref: str, name: str, after: str | None = None) -> str | None:
        """The ref of the function that `name` means on an instance of class `ref`, or on `super()` of class `after`."""
        order = self.mro(ref)
        methods = self._methods.setdefault(ref if after is None else (ref, after), {})
        if name not in methods:
            # It follows from the order of bases, and from what these declare: whoever asks has just asked for that.
            methods[intern(name)] = self._uses.aside(lambda: self._find_method(order, name, after))
        return methods[name]

    def _find_method(self, order: tuple[str, ...], name: str, after: str | None) -> str | None:
        if after is not None and after in order:
            order = order[order.index(after) + 1 :]
        for base in order:
            if "::" in base:
                facts = self.class_facts(base)
                if facts is not None and name in facts.methods:
                    return intern(f"{base.partition('::')[0]}::{facts.methods[name]}")
        return None


def is_module_base(base: str) -> bool:
    """Whether an element of a class's order of bases is a library's class of torch modules."""
    return "::" not in base and (base.startswith(("torch.nn.", "nn.")) or base.endswith(MODULE_SUFFIXES))


def _shared(path: str, other: str) -> int:
    """How many leading folders two paths share."""
    count = 0
    for a, b in zip(path.split("/")[:-1], other.split("/")[:-1], strict=False):
        if a != b:
            break
        count += 1
    return count
