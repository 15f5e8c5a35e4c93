"""Models of library functions, by dotted name: whether they wait for the GPU, and what they return. Rulebook data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

Returns = Literal[
    "object", "tensor", "host-tensor", "tensors", "host-tensors", "length", "number", "array", "text", "nothing",
    "first", "unknown",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Summary:
    """One entry of libraries.yaml."""

    names: tuple[str, ...]
    "Dotted names, or shell patterns of them."
    waits: bool = False
    returns: Returns = "unknown"


@dataclass(frozen=True)
class Libraries:
    summaries: tuple[Summary, ...] = ()
    _by_last: Mapping[str, list[tuple[str, Summary]]] = field(default_factory=dict, repr=False)
    "Last part of a pattern -> pattern and summary; under the empty text where the last part is a pattern itself."

    _found: dict[str, Summary | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @staticmethod
    def of(summaries: Iterable[Summary]) -> Libraries:
        table: dict[str, list[tuple[str, Summary]]] = {}
        entries = tuple(summaries)
        for summary in entries:
            for name in summary.names:
                last = name.rpartition(".")[2]
                table.setdefault("" if set(last) & set("*?[") else last, []).append((name, summary))
        return Libraries(entries, table)

    def find(self, name: str) -> Summary | None:
        """The model of a dotted name; of several matching entries, the last."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> Summary | None:
        candidates = (*self._by_last.get("", ()), *self._by_last.get(name.rpartition(".")[2], ()))
        found = None
        for pattern, summary in candidates:
            # A pattern stands for parts of names, a method's name for itself alone.
            if pattern.count(".") <= name.count(".") and fnmatchcase(name, pattern):
                found = summary
        return found
