"""The events that a walk over hot code emits: few kinds, which rules match as data.

Each kind, and how it happens. Those of Alloc, Rng, StreamOp and AttrWrite are explained by the rules that match them.

HostRead    method (`.item() .tolist()`), cast (`int float bool complex`, `math.*`, `operator.index`), index (a 0-d
            device tensor as an index), format (print, f-string, str, logging), hidden (an op of the table that waits
            inside), library (a known library call that waits)
Branch      if, while, assert, ifexp, and, or, not, in, compare, max, min, any, all, sorted, filter, operator
Extent      op (an op whose output size depends on data), mask (`x[mask]`), mask-store (`x[mask] = tensor`), slice,
            range, size (a size argument of a factory or view), narrow, split
Transfer    to-host, literal (Python values to a device tensor), index (`x[[0, 1]]`, a host index tensor), blocking
            (pageable, or pinned without `non_blocking=True`)
Store       scalar (`buf[i] = 7`), host-tensor (`buf[i] = torch.tensor(7)`), by-index (`buf[index_tensor] = 7`),
            host-part (`buf[0:2] = torch.tensor([7, 8])`)
Call        the pattern, from a rule's `call`, that the called name matches
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from graphsafe.report.model import Confidence, Level
from graphsafe.scan.domain.frozen import dataclass

EventKind = Literal[
    "HostRead", "Branch", "Extent", "Transfer", "Store", "Alloc", "Rng", "StreamOp", "AttrWrite", "Call"
]
HOWS: Mapping[str, frozenset[str]] = {
    kind: frozenset(hows.split())
    for kind, hows in {
        "HostRead": "method cast index format hidden library",
        "Branch": "if while assert ifexp and or not in compare max min any all sorted filter operator",
        "Extent": "op mask mask-store slice range size narrow split",
        "Transfer": "to-host literal index blocking",
        "Store": "scalar host-tensor by-index host-part",
        "Alloc": "factory like new clone growing appended pinned leaking",  # leaking: capture alone
        "Rng": "private-generator reseed state host-random",
        "StreamOp": "synchronize query elapsed-time barrier no-stream no-warmup unjoined foreign-stream literal-device "
        "swallowed capturing-branch autocast-around wait-between-graphs never-replayed same-inputs "
        "captured-again made-late discarded",
        "AttrWrite": "lazy-init host-state rebound cached output-kept not-replayed derived input-rebound "
        "partial-refresh weights-rebound grads-dropped freed rate-changed number-changed counted begun-in-capture "
        "key-lacks made-twice refilled host-refilled read-early given-early optimizer declared over-declared "
        "under-declared buckets departed late",  # buckets, departed, late: capture alone
    }.items()
}
"Event kind -> the words for how it happens. For calls, the rules themselves name the patterns."
WORDS: Mapping[str, str] = {
    "expr": "the source text",
    "value": "what is known of the value",
    "op": "the operation, where the op table knows it",
    "attribute": "the attribute that is written, of AttrWrite",
    "uses": "the lines that use a host number, of AttrWrite host-state",
    "used_as": "what these use it as, of AttrWrite host-state",
    "codes": "the rules that speak against a declaration, of AttrWrite declared",
}
"The words of events, which placeholders stand for."
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
    "Whether the line follows a test for a missing value that is made here, so that no step after a warm-up runs it."
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
