"""docs/report.md and the pages that it refers to explain every key of the JSON Schema and every kind of limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphsafe.report.schema import report_schema

ROOT = Path(__file__).parents[2]
LEDGER = frozenset({"ledger", "process", "graph", "outside", "failed_capture", "wait"})


def words_in_code(*pages: str) -> set[str]:
    """Return the words that pages write as code."""
    text = "\n".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in pages)
    return {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"[\w-]+", code)}


def keys_of(schema: Any) -> Iterator[str]:
    """Yield the keys of all objects that a part of the schema describes."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield from value if key == "properties" else ()
            yield from keys_of(value)
    elif isinstance(schema, list):
        for part in schema:
            yield from keys_of(part)


@pytest.mark.parametrize(
    ("of_ledger", "pages"),
    [(False, ("report.md", "capture.md", "buckets.md", "plan.md")), (True, ("run.md", "report.md"))],
    ids=["report", "ledger"],
)
def test_every_key_is_explained(of_ledger: bool, pages: tuple[str, ...]) -> None:
    parts = report_schema()["$defs"].items()
    keys = {key for name, part in parts if (name in LEDGER) is of_ledger for key in keys_of(part)}
    missing = sorted(keys - words_in_code(*pages))
    assert not missing, f"docs/{pages[0]} does not explain {', '.join(missing)}"


def test_every_kind_of_limit_is_explained() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "graphsafe").rglob("*.py"))
    kinds = set(re.findall(r"\bLimit\(\s*\"([a-z-]+)\"", source))
    assert len(kinds) > 25
    missing = sorted(kinds - words_in_code("report.md", "run.md", "scan.md"))
    assert not missing, f"docs/report.md does not explain the limits {', '.join(missing)}"
