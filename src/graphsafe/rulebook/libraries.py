"""Models of library functions, by dotted name: whether they wait for the GPU, and what they return.

The models are data of the rulebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

ReturnKind = Literal[
    "object", "self", "tensor", "host-tensor", "tensors", "host-tensors", "length", "number", "array", "text",
    "nothing", "first", "shape-of-first", "unchanged", "unknown", "stream", "side-stream", "current-stream",
    "default-stream", "event", "graph", "capture", "capturing", "stream-context", "device-context", "grad-mode",
    "host-generator", "array-generator", "thread-pool",
]  # fmt: skip
Returns = ReturnKind | tuple["Returns", ...]
"A kind of value, or a tuple of the kinds of its elements. The head of libraries.yaml describes the kinds."


@dataclass(frozen=True, slots=True)
class LibraryModel:
    """One entry of libraries.yaml."""

    names: tuple[str, ...]
    "Dotted names, or shell patterns that match them."
    waits: bool = False
    returns: Returns = "unknown"
    unless: Mapping[str, int] = field(default_factory=dict)
    """Arguments with which a call does not wait, each with its position. If a call that returns an `object` passes such
    an argument, its result is unknown."""


class Libraries:
    """All models of libraries, searched by dotted name."""

    def __init__(self, models: Iterable[LibraryModel], called: Iterable[str]) -> None:
        self.called = tuple(called)
        "The patterns of calls that rules match directly."
        self._by_last: dict[str, list[tuple[str, LibraryModel]]] = {}
        """Last part of a pattern -> the pattern and its model. If the last part has wildcards, the key is ""."""
        for model in models:
            for name in model.names:
                last = name.rpartition(".")[2]
                self._by_last.setdefault("" if set(last) & set("*?[") else last, []).append((name, model))
        self._found: dict[str, LibraryModel | None] = {}
        self._matched: dict[str, tuple[str, ...]] = {}

    def find(self, name: str) -> LibraryModel | None:
        """Return the model of a dotted name, or None. If several entries match, return the last one."""
        if name not in self._found:
            candidates = (*self._by_last.get("", ()), *self._by_last.get(name.rpartition(".")[2], ()))
            models = (model for pattern, model in reversed(candidates) if _stands_for(pattern, name))
            self._found[name] = next(models, None)
        return self._found[name]

    def matched(self, name: str) -> tuple[str, ...]:
        """Return the patterns of `called` that match a dotted name."""
        if name not in self._matched:
            self._matched[name] = tuple(pattern for pattern in self.called if _stands_for(pattern, name))
        return self._matched[name]


def _stands_for(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name and has no more parts than the name."""
    return pattern.count(".") <= name.count(".") and fnmatchcase(name, pattern)
