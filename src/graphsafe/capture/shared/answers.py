"""Answers of children. An answer is a frozen dataclass. A child writes answers as JSON, and the parent reads them by
their class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from graphsafe.report.json_form import plain
from graphsafe.report.reading import read

Answer = TypeVar("Answer")


class Answers:
    """The answers that a child has given, at most one of each class."""

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        self._data = data or {}
        self._read: dict[type, Any] = {}

    def get(self, kind: type[Answer]) -> Answer | None:
        """Return the answer of this class, or None."""
        if kind not in self._read:
            data = self._data.get(_name_of(kind))
            try:
                self._read[kind] = None if data is None else read(kind, data)
            except (TypeError, ValueError, AttributeError, RecursionError):  # no child of graphsafe writes this
                self._read[kind] = None
        found: Answer | None = self._read[kind]
        return found

    def __getitem__(self, kind: type[Answer]) -> Answer:
        """Return the answer of this class, or an empty answer."""
        found = self.get(kind)
        return kind() if found is None else found

    def __contains__(self, kind: type) -> bool:
        return _name_of(kind) in self._data

    def __or__(self, later: Answers) -> Answers:
        """Return the answers of both. If both have an answer of one class, the later one is returned."""
        return Answers({**self._data, **later._data})

    def __str__(self) -> str:
        return str(self._data)


def written(*answers: object) -> dict[str, Any]:
    """Return answers as JSON values, in the form in which a child writes them to its file."""
    return {_name_of(type(one)): plain(one) for one in answers}


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
