"""Global names: imports, classes, functions, and the values that module-level statements assign."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import partial

from graphsafe.scan.domain.joins import join, join_all
from graphsafe.scan.domain.values import UNKNOWN, ClassValue, Dict, Function, ProjectModule, Unknown, Value
from graphsafe.scan.execution.frame import Engine, Frame
from graphsafe.scan.interpreter import statements
from graphsafe.scan.models import library
from graphsafe.scan.symbols.index import FileIndex, is_kernel
from graphsafe.scan.symbols.project import Binding
from graphsafe.scan.symbols.registries import entries_of

MAX_BINDINGS = 8
"""The largest number of statements that may bind a global name. If there are more statements, the name's value counts
as unknown."""


class ModuleLevel:
    """Evaluates global names of the project's files."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._meant: dict[tuple[str, str], Value] = {}
        """The values of builtins, and of names that imports and definitions bind. They do not depend on any cached
        answer."""

    def value(self, file: FileIndex, name: str) -> Value:
        key = file.path, name
        meant = self._meant.get(key)
        if meant is not None:
            return meant
        binding = self._engine.project.resolve(file, name)
        if binding is None:
            meant = library.constant(f"builtins.{name}") if hasattr(builtins, name) else UNKNOWN
        elif binding.kind == "assign":
            return self._engine.queries.ask(("global", *key), lambda: self.bound(binding), lambda: UNKNOWN)
        else:
            meant = self.bound(binding)
        self._meant[key] = meant
        return meant

    def bound(self, binding: Binding) -> Value:
        if binding.kind == "lib":
            return library.constant(binding.name)
        if binding.kind == "module":
            return ProjectModule(binding.name, binding.path)
        if binding.kind == "class":
            return ClassValue(binding.ref)
        if binding.kind == "function":
            return _function(self._engine, binding.ref)
        return self.assigned(binding.path, binding.name)

    def assigned(self, path: str, name: str) -> Value:
        project = self._engine.project
        file = project.files.index(path)
        bindings = project.assigned(path, name)
        if file is not None and bindings:
            return self._at_module_level(file, name, bindings)
        owner, _, attribute = name.rpartition(".")
        if owner and project.class_facts(f"{path}::{owner}") is not None:
            return self._engine.attributes.of_class(f"{path}::{owner}", attribute)
        return UNKNOWN

    def _at_module_level(self, file: FileIndex, name: str, bindings: Sequence[tuple[int, int]]) -> Value:
        """Return the join of the values that module-level statements bind to `name`."""
        if len(bindings) > MAX_BINDINGS:
            return UNKNOWN
        frame = Frame(self._engine, file, f"{file.path}::", {}, hot=False, level=0)
        value: Value | None = None
        for first, last in bindings:
            statement = self._engine.project.files.statement(file.path, first, last)
            if statement is None:
                return UNKNOWN
            frame.env.pop(name, None)
            self._engine.quietly(partial(statements.execute, frame, [statement]))
            new = frame.env.get(name, UNKNOWN)
            value = new if value is None else join(value, new)
        if type(value) is Dict and not value.items and type(value.elem) is Unknown:
            entries = [self.bound(entry) for entry in entries_of(self._engine.project, file.path, name)]
            return Dict((), join_all(entries or [value.elem]))
        return UNKNOWN if value is None else value


def _function(engine: Engine, ref: str) -> Value:
    facts = engine.project.function_facts(ref)
    if facts is not None:
        if is_kernel(facts.decorators):
            return UNKNOWN
        for decorator in facts.decorators:
            if decorator.endswith(("lru_cache", "functools.cache")) or decorator == "cache":
                return Function(ref, cached=True)
    return Function(ref)
