"""Converts the index of a file to text and back."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from graphsafe.scan.symbols.index import ClassFacts, FileIndex, FunctionFacts

_NAMES = {kind: [field.name for field in fields(kind)] for kind in (FileIndex, FunctionFacts, ClassFacts)}


def text_of(index: FileIndex) -> str:
    return json.dumps(index, default=_members, separators=(",", ":"))


def index_of(path: str, text: str) -> FileIndex | None:
    """Return the index that a text holds; None if it is no index of that file."""
    try:
        data = json.loads(text)
        functions = {name: FunctionFacts(**_with_tuples(facts)) for name, facts in data.pop("functions").items()}
        classes = {name: ClassFacts(**_with_tuples(facts)) for name, facts in data.pop("classes").items()}
        assigns = {name: [(first, last) for first, last in spans] for name, spans in data.pop("assigns").items()}
        index = FileIndex(functions=functions, classes=classes, assigns=assigns, **data)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return index if index.path == path else None


def _members(facts: FileIndex | FunctionFacts | ClassFacts) -> dict[str, object]:
    return {name: getattr(facts, name) for name in _NAMES[type(facts)]}


def _with_tuples(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the members with tuples where an index has them; JSON knows only lists."""
    for name in ("bases", "decorators"):
        if name in facts:
            facts[name] = tuple(facts[name])
    if "fields" in facts:
        facts["fields"] = {name: (first, last) for name, (first, last) in facts["fields"].items()}
        facts["writers"] = {name: tuple(methods) for name, methods in facts["writers"].items()}
    return facts
