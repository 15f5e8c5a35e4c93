"""A project as Python would import it: its modules, the meaning of names, and classes with their bases."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from sys import intern
from typing import Literal

from graphsafe.scan.sources.source import Unreadable
from graphsafe.scan.symbols.blocks import Definition
from graphsafe.scan.symbols.index import ClassFacts, FileIndex, FunctionFacts
from graphsafe.scan.symbols.project_files import Files

MODULE_SUFFIXES = ("Module", "PreTrainedModel", "LightningModule", "ModelMixin")
PLAIN_BASES = frozenset("object builtins.object ABC abc.ABC typing.Generic typing.Protocol".split())
"Classes outside the project that have no attributes of their own."
MAX_BASES = 200
"""The largest number of classes in a class's method resolution order. Without a limit, a chain of thousands of classes
would be followed for every class in it."""
Kind = Literal["module", "class", "function", "assign", "lib"]


@dataclass(frozen=True, slots=True)
class Binding:
    """The meaning of a global name."""

    kind: Kind
    name: str
    "The qualified name within the file, or the dotted path for `lib` and `module`."
    path: str = ""

    @property
    def ref(self) -> str:
        """`path::Qual.name`, as one shared string object."""
        return intern(f"{self.path}::{self.name}")


def ref_of(binding: Binding | None, kind: Kind) -> str | None:
    """Return the class or function of the project to which a name refers, or None if it refers to something else."""
    return binding.ref if binding is not None and binding.kind == kind else None


@dataclass(frozen=True, slots=True)
class FilesRead:
    """The files that one process has read and sends to another process."""

    indexes: Mapping[str, FileIndex | None]
    problems: Mapping[str, Unreadable]
    rewritten: Set[str]


class Project:
    """Resolves names across the files of a project. Results are memoised, because files do not change during a scan."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.asked_bytes = 0
        "The total size of the modules that have been looked up so far."
        self._asked: set[str] = set()
        self._modules = files.modules
        self._packages = frozenset(name.partition(".")[0] for name in files.modules)
        self._mros: dict[str, tuple[str, ...]] = {}
        self._body_names: dict[str, frozenset[str]] = {}
        self._cut: dict[str, str] = {}
        "Class with too many bases -> its nearest base that also has too many, or the class itself."
        self._bindings: dict[tuple[str, str], Binding | None] = {}
        self._classes: dict[str, ClassFacts | None] = {}
        self._functions: dict[str, FunctionFacts | None] = {}
        self._methods: dict[object, dict[str, str | None]] = {}
        "Class, and the class after which the search starts (or None) -> name -> method."

    # names

    def module(self, name: str, importer: str) -> FileIndex | None:
        """Return the file that `import name` in `importer` imports, or None. If there are several such files, return
        the one nearest to the importer."""
        plain = self.files.in_plain_folder(name, importer) if name not in self._modules else None
        candidates = self._modules.get(name) or ([plain] if plain is not None else [])
        if not candidates:
            return None
        path = candidates[0]
        if len(candidates) > 1:
            path = min(candidates, key=lambda path: (-_shared(path, importer), path))
        if path not in self._asked:
            self._asked.add(path)
            self.asked_bytes += len(self.files.data(path) or b"")
        return self.files.index(path)

    def resolve(self, file: FileIndex, name: str, depth: int = 0) -> Binding | None:
        """Return the meaning of the global `name` in `file`, or None for a builtin or a name that is bound nowhere."""
        key = (file.path, name)
        if key not in self._bindings:
            # This provisional value is stored first. It is the result for a name that refers to itself through other
            # files.
            self._bindings[key] = None
            self._bindings[key] = self._resolve(file.path, name, depth)
        return self._bindings[key]

    def _resolve(self, path: str, name: str, depth: int) -> Binding | None:
        file = self.files.index(path)
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
        """Return the meaning of an absolute dotted path: a module of the project, a name in it, or a library's name."""
        parts = dotted.split(".")
        if parts[0] not in self._packages:
            folder = self._script_folder(importer)
            if folder and f"{folder}.{parts[0]}" in self._modules:
                parts = [*folder.split("."), *parts]
        for split in range(len(parts), 0, -1):
            module = ".".join(parts[:split])
            file = self.module(module, importer)
            if file is None and module not in self._modules:
                continue
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

    def _script_folder(self, importer: str) -> str:
        """Return the folder from which a script imports its modules, as a dotted module name. Return "" for a module of
        a package."""
        folder = self.files.names.get(importer, ("", False))[0].rpartition(".")[0]
        return "" if folder in self._modules else folder

    def member(self, binding: Binding, rest: list[str]) -> Binding:
        """Return the meaning of `binding.a.b`."""
        for i, name in enumerate(rest):
            if binding.kind == "lib":
                return Binding("lib", intern(".".join([binding.name, *rest[i:]])))
            if binding.kind == "module":
                file = self.files.index(binding.path)
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

    def meaning(self, file: FileIndex | None, dotted: str) -> Binding | None:
        """Return the meaning of `a.b.c` in a file, or None if `a` is a builtin or bound nowhere."""
        head, *rest = dotted.split(".")
        binding = self.resolve(file, head) if file is not None and head else None
        return self.member(binding, rest) if binding is not None else None

    def found(self, but: Set[str]) -> FilesRead:
        """Return the files that this process has read, for another process that already has the indexes of the files
        `but`."""
        files = self.files
        indexes = {path: index for path, index in files.indexes.items() if path not in but}
        return FilesRead(indexes, files.problems, files.rewritten)

    def learn(self, found: FilesRead) -> None:
        """Add the files that another process has read."""
        self.files.indexes.update(found.indexes)
        self.files.problems.update(found.problems)
        self.files.rewritten |= found.rewritten

    def assigned(self, path: str, name: str) -> Sequence[tuple[int, int]]:
        """Return the first and last lines of the module-level statements that bind a name, in order."""
        file = self.files.index(path)
        return file.assigns.get(name, ()) if file is not None else ()

    def imports(self, path: str) -> Collection[str]:
        """Return the dotted names that a file imports."""
        file = self.files.index(path)
        return file.imports.values() if file is not None else ()

    def classes(self, path: str) -> Collection[str]:
        """Return the qualified names of a file's classes."""
        file = self.files.index(path)
        return file.classes if file is not None else ()

    # classes and functions, by `path::Qual.name`

    def class_facts(self, ref: str) -> ClassFacts | None:
        if ref not in self._classes:
            path, _, name = ref.partition("::")
            file = self.files.index(path)
            self._classes[intern(ref)] = file.classes.get(name) if file is not None else None
        return self._classes[ref]

    def function_facts(self, ref: str) -> FunctionFacts | None:
        if ref not in self._functions:
            path, _, name = ref.partition("::")
            file = self.files.index(path)
            self._functions[intern(ref)] = file.functions.get(name) if file is not None else None
        return self._functions[ref]

    def decorators(self, ref: str) -> tuple[str, ...]:
        """Return the names of a function's decorators."""
        facts = self.function_facts(ref)
        return facts.decorators if facts is not None else ()

    def file_of(self, ref: str) -> FileIndex | None:
        """Return the index of the file that contains a function or class, or None if the file cannot be read."""
        return self.files.index(ref.partition("::")[0])

    def module_of(self, path: str) -> str:
        """Return the dotted name of a file's module, or "" for a file that cannot be read."""
        file = self.files.index(path)
        return file.module if file is not None else ""

    def function_around(self, ref: str) -> FunctionFacts | None:
        """Return the function `path::name`, or the function that contains the closure of that name, or None."""
        path, _, name = ref.partition("::")
        index = self.files.index(path)
        while name and index is not None and name not in index.classes:
            if name in index.functions:
                return index.functions[name]
            name = name.rpartition(".")[0]
        return None

    def function_node(self, ref: str) -> Definition | None:
        facts = self.function_facts(ref)
        if facts is None:
            return None
        node = self.files.statement(ref.partition("::")[0], facts.line, facts.end_line)
        return node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None

    def method_node(self, ref: str | None, name: str) -> Definition | None:
        """Return the definition of the method to which `name` refers on an instance of a class, or None."""
        method = self.find_method(ref, name) if ref is not None else None
        return self.function_node(method) if method is not None else None

    def mro(self, ref: str) -> tuple[str, ...]:
        """Return the class and its nearest bases. Classes of the project are refs, all others are dotted names."""
        if ref not in self._mros:
            # This provisional value is stored first. It is the result for a class that is indirectly its own base.
            self._mros[ref] = (ref,)
            self._mros[ref] = self._linearise(ref)
        return self._mros[ref]

    def own_classes(self, ref: str) -> Iterator[tuple[str, ClassFacts]]:
        """Yield the class and its bases that the project defines, nearest first."""
        for base in self.mro(ref):
            facts = self.class_facts(base) if "::" in base else None
            if facts is not None:
                yield base, facts

    def has_foreign_base(self, ref: str) -> bool:
        """Return whether a base is a class of a library that may have attributes of its own."""
        return any("::" not in base and base not in PLAIN_BASES for base in self.mro(ref))

    def own_methods(self, ref: str) -> Sequence[str]:
        """Return the methods that a class itself defines."""
        facts = self.class_facts(ref)
        path = ref.partition("::")[0]
        return [f"{path}::{name}" for name in facts.methods.values()] if facts is not None else []

    def body_names(self, ref: str) -> frozenset[str]:
        """Return the names that the bodies of a class and its bases bind, except methods."""
        if ref not in self._body_names:
            self._body_names[ref] = frozenset(name for _, facts in self.own_classes(ref) for name in facts.fields)
        return self._body_names[ref]

    def derives(self, ref: str, endings: str | tuple[str, ...]) -> bool:
        """Return whether a class has a base outside the project whose dotted name has one of these endings."""
        return any("::" not in base and base.endswith(endings) for base in self.mro(ref))

    def _linearise(self, ref: str) -> tuple[str, ...]:
        facts = self.class_facts(ref)
        if facts is None:
            return (ref,)
        file = self.file_of(ref)
        order = [ref]
        for base in facts.bases:
            binding = self.meaning(file, base)
            if binding is not None and binding.kind == "class":
                order.extend(self.mro(binding.ref))
            else:
                order.append(binding.name if binding is not None and binding.kind == "lib" else base)
        # The order is depth first, and keeps only the last of repeated bases. Where C3 differs from a plain depth-first
        # order, this order is the same as C3's.
        unique = dict.fromkeys(reversed(order))
        if len(unique) > MAX_BASES:
            self._cut[ref] = next((self._cut[base] for base in order if base in self._cut), ref)
        return tuple(reversed(unique))[:MAX_BASES]

    def cut_chains(self) -> Sequence[str]:
        """Return the classes with more than MAX_BASES bases, without their subclasses."""
        return sorted({*self._cut.values()})

    def find_method(self, ref: str, name: str, after: str | None = None) -> str | None:
        """Return the method to which `name` refers on an instance of `ref` (or on `super()` in class `after`), or
        None."""
        methods = self._methods.setdefault(ref if after is None else (ref, after), {})
        if name not in methods:
            order = self.mro(ref)
            bases = order[order.index(after) + 1 :] if after is not None and after in order else order
            methods[intern(name)] = next(self._methods_in(bases, name), None)
        return methods[name]

    def _methods_in(self, bases: Sequence[str], name: str) -> Iterator[str]:
        for base in bases:
            facts = self.class_facts(base) if "::" in base else None
            if facts is not None and name in facts.methods:
                yield intern(f"{base.partition('::')[0]}::{facts.methods[name]}")


def is_module_base(base: str) -> bool:
    """Return whether a base, as the method resolution order names it, is a module class of a library."""
    return "::" not in base and (base.startswith(("torch.nn.", "nn.")) or base.endswith(MODULE_SUFFIXES))


def _shared(path: str, other: str) -> int:
    """Return how many leading folders two paths share."""
    count = 0
    for a, b in zip(path.split("/")[:-1], other.split("/")[:-1], strict=False):
        if a != b:
            break
        count += 1
    return count
