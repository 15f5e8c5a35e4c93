"""Models of library functions, by dotted name: whether they wait for the GPU, and what they return. Rulebook data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

ReturnKind = Literal[
    "object", "self", "tensor", "host-tensor", "tensors", "host-tensors", "length", "number", "array", "text",
    "nothing", "first", "shape-of-first", "unchanged", "unknown", "stream", "side-stream", "current-stream",
    "default-stream", "event", "graph", "stream-context", "device-context", "grad-mode",
]  # fmt: skip
Returns = ReturnKind | tuple["Returns", ...]
"One kind, or a tuple of what its elements are. The head of libraries.yaml says what the kinds mean."


@dataclass(frozen=True, slots=True)
class LibraryModel:
    """One entry of libraries.yaml."""

    names: tuple[str, ...]
    "Dotted names, or shell patterns of them."
    waits: bool = False
    returns: Returns = "unknown"


@dataclass(frozen=True)
class Libraries:
    models: tuple[LibraryModel, ...] = ()
    _by_last: Mapping[str, list[tuple[str, LibraryModel]]] = field(default_factory=dict, repr=False)
    "Last part of a pattern -> pattern and model; under the empty text where the last part is a pattern itself."

    _found: dict[str, LibraryModel | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @staticmethod
    def of(models: Iterable[LibraryModel]) -> Libraries:
        table: dict[str, list[tuple[str, LibraryModel]]] = {}
        entries = tuple(models)
        for model in entries:
            for name in model.names:
                last = name.rpartition(".")[2]
                table.setdefault("" if set(last) & set("*?[") else last, []).append((name, model))
        return Libraries(entries, table)

    def find(self, name: str) -> LibraryModel | None:
        """The model of a dotted name; of several matching entries, the last."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> LibraryModel | None:
        candidates = (*self._by_last.get("", ()), *self._by_last.get(name.rpartition(".")[2], ()))
        found = None
        for pattern, model in candidates:
            # A pattern stands for parts of names, a method's name for itself alone.
            if pattern.count(".") <= name.count(".") and fnmatchcase(name, pattern):
                found = model
        return found
