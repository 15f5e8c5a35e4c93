"""The events of hot code. There are few kinds of events, and rules name events by their kind
(`rulebook/vocabulary.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from graphsafe.report.model import Confidence, Level
from graphsafe.rulebook.vocabulary import EventKind
from graphsafe.scan.domain.frozen import dataclass

Span = tuple[int, int, int, int]
"""First line, first column, last line, and the column after the last character. As in `ast`, columns are bytes, counted
from 0."""


@dataclass(frozen=True, slots=True)
class CompileTest:
    """A test such as `if not is_compiling():`, which only some captures pass."""

    compiling: bool
    "Whether the line runs only under torch.compile (True) or only without it (False)."
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a line of hot code does.

    `words` holds the values for the placeholders of a rule's message. `expr` (the source code) is always present.
    `value` describes the value (`` `lengths`, a device tensor from the step's inputs``). Other words depend on the
    kind.
    """

    kind: EventKind
    how: str
    span: Span
    confidence: Confidence = "likely"
    guard: str | None = None
    """The condition that keeps this line out of captures, or None. If there is a condition, the event's finding is a
    note at most."""
    level: Level | None = None
    "The finding's level, if the event sets the level instead of the rule."
    words: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    "Whether the line runs only to make a missing value. No step after a warm-up runs such a line."
    compile_test: CompileTest | None = None
    "The innermost test for torch.compile around the line."


_LEVELS = ("error", None, "warning", "note")
"Levels from severe to mild; None is the level of the event's rule."


def plainness(event: Event) -> tuple[bool, bool, int]:
    """Return a sort key for events at one place. Unguarded events come first, then certain ones, then severe ones."""
    return event.guard is not None, event.confidence == "possible", _LEVELS.index(event.level)


def span_of(node: Any) -> Span:
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
