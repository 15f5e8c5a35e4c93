"""What docs/coverage.md says of two public lists is so: each snippet is found, and what repairs it is clean."""

from __future__ import annotations

import pytest

from graphsafe.rulebook.book import load_rulebook

from .benchmark import ROOT, benchmark

coverage = benchmark("scan/coverage_table")
ENTRIES = [(name, entry) for name, rows in coverage.entries().items() for entry in rows]


@pytest.mark.parametrize(
    "entry", [entry for _, entry in ENTRIES if entry.reason is None], ids=lambda entry: f"{entry.item}: {entry.about}"
)
def test_what_is_said_to_be_seen_is_seen(entry: object) -> None:
    assert entry.problems() == []  # type: ignore[attr-defined]


def test_an_entry_has_a_snippet_or_a_reason() -> None:
    for name, entry in ENTRIES:
        shown = entry.good is not None and (bool(entry.codes) or entry.bad is None)
        assert shown is (entry.reason is None), (name, entry.item)


def test_every_item_of_the_checklist_is_accounted_for() -> None:
    advice = {37, *range(45, 50), *range(84, 91), 93, 94}
    told = [int(entry.item) for name, entry in ENTRIES if name == "checklist"]
    assert sorted([*told, *advice]) == list(range(1, 97))


def test_the_rules_answer_to_the_items_that_they_cover() -> None:
    rules = load_rulebook().rules
    for name, entry in ENTRIES:
        if name == "checklist" and entry.codes:
            assert any(int(entry.item) in rules[code].checklist for code in entry.codes), entry.item


def test_the_page_is_made_from_the_data() -> None:
    assert (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8") == coverage.page()
