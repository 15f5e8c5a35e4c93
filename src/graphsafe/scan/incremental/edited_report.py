"""The report after an edit that leaves alone all that the scan has used: that of before, with its lines shifted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from graphsafe.report.model import Report, in_order
from graphsafe.scan.domain.uses import Fact
from graphsafe.scan.incremental.fact_digests import statements
from graphsafe.scan.incremental.line_shifts import LineShift, Span, Unclear, shifted
from graphsafe.scan.symbols.index import FileIndex


def after_edit(
    report: Report, facts: Iterable[Fact], edited: dict[str, tuple[FileIndex | None, FileIndex]]
) -> Report | None:
    """None where a line cannot be told. `facts`: all that were used, and say the same as before.

    `edited`: path -> the index of before, where it is known, and that of today.
    """
    read: dict[str, set[Fact]] = {path: set() for path in edited}
    for fact in facts:
        if fact[1] in read:
            read[str(fact[1])].add(fact)
    shifts = {}
    for path, (before, now) in edited.items():
        lines_before, lines_now = _lines(path, before, read[path]), _lines(path, now, read[path])
        if lines_before.keys() != lines_now.keys():
            return None
        shifts[path] = LineShift(lines_before, lines_now)
    try:
        return replace(report, findings=tuple(in_order(shifted(report.findings, shifts))))
    except Unclear:
        return None


def _lines(path: str, index: FileIndex | None, read: set[Fact]) -> dict[str, Span]:
    """First and last lines of the statements that were read, by what they are, and which of several."""
    found: dict[str, Span] = {}
    for span, (kind, name) in sorted(statements(index).items()) if index is not None else ():
        if (kind, path, name) in read:
            number = sum(key.startswith(f"{kind} {name} ") for key in found) if kind == "statement" else 0
            found[f"{kind} {name} {number}"] = span
    return found
