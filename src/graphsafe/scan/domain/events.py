"""The events that a walk over hot code emits: few kinds, which rules match as data (`rulebook/vocabulary.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from graphsafe.report.model import Confidence, Level
from graphsafe.rulebook.vocabulary import EventKind
from graphsafe.scan.domain.frozen import dataclass

Span = tuple[int, int, int, int]
"First line, first column, last line, column after the last, as `ast` counts: lines from 1, columns from 0 in bytes."


@dataclass(frozen=True, slots=True)
class CompileTest:
    """A test such as `if not is_compiling():`, which lets only some captures through."""

    compiling: bool
    "Whether the line runs only under torch.compile (True) or only without it (False)."
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a line of hot code does.

    `words` fills the placeholders of a rule's message: `expr` (the source text) is always there, `value` says what is
    known of the value (`` `lengths`, a device tensor from the step's inputs``), others depend on the kind.
    """

    kind: EventKind
    how: str
    span: Span
    confidence: Confidence = "likely"
    guard: str | None = None
    "The condition that keeps this line out of captures; its finding is a note at most."
    level: Level | None = None
    "The level, if the event decides the level instead of its rule."
    words: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    "Whether the line runs only if a value is missing, and makes that value, so that no step after a warm-up runs it."
    compile_test: CompileTest | None = None
    "The innermost test for torch.compile around the line."


_LEVELS = ("error", None, "warning", "note")
"From severe to mild; None is the level of the event's rule."


def plainness(event: Event) -> tuple[bool, bool, int]:
    """Rank events at one place, the plainest first: unguarded, then more certain, then more severe."""
    return event.guard is not None, event.confidence == "possible", _LEVELS.index(event.level)


def span_of(node: Any) -> Span:
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def precedence(guard: str | None, confidence: Confidence) -> tuple[bool, bool]:
    """Rank two events at one place: the unguarded event counts, then the more certain event."""
    return guard is None, confidence != "possible"
