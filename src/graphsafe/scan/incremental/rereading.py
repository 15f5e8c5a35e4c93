"""After an edit of hot functions: these are read again, each with the answers that it got before.

Where they do to the rest of the scan what they did, the rest is as it was, and the record changes in their lines alone.
Where they do not, the whole scan is gone through again (retrace.py).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graphsafe.config import Config
from graphsafe.scan.domain.record import SITE, Record
from graphsafe.scan.domain.state_log import StateLog
from graphsafe.scan.incremental.footprint import Edit
from graphsafe.scan.incremental.journal import call_of, header, question_of
from graphsafe.scan.incremental.moves import Move
from graphsafe.scan.incremental.oracle import TACT, Elsewhere, Oracle, Unanswered
from graphsafe.scan.incremental.reading import Reading, items_text, parse_row, reading_text, row_text
from graphsafe.scan.incremental.record_change import add, are_judged, without
from graphsafe.scan.incremental.record_form import parse_record, record_text
from graphsafe.scan.incremental.retrace import Restart, Retrace
from graphsafe.scan.incremental.trace import Trace
from graphsafe.scan.incremental.value_table import ValueTable
from graphsafe.scan.interpreter.driver import replays_of
from graphsafe.scan.interpreter.engine import Engine
from graphsafe.scan.symbols.project import Project

ALL = ("table", "record", "circumstances", "course")
"Names of what is kept of a scan as a whole, beside the readings of each function."
FEW_ATTEMPTS, MAX_ATTEMPTS = 7, 10
"To go through a scan again, each with more functions read from the start; after a few with all that share closures."


@dataclass(frozen=True, slots=True)
class Reread:
    record: Record
    kept: Mapping[str, str]
    "What is to be kept of the scan as a whole, by the names in ALL."
    rows: Mapping[str, str]
    "The readings of the functions that were read again."


class Kept:
    """What an earlier scan has kept."""

    def __init__(self, whole: Mapping[str, str], row: Callable[[str], str | None]) -> None:
        """Raises KeyError. `row` gives a function's readings, as the journal wrote them."""
        self.table = ValueTable(whole["table"])
        self.record = parse_record(whole["record"], self.table)
        self.circumstances = whole["circumstances"]
        self.course = whole["course"]
        self._row = row
        self._rows: dict[str, tuple[str, Sequence[Reading]]] = {}

    def function(self, ref: str) -> tuple[str, Sequence[Reading]]:
        """Its header's digest, and its readings: none where they are not kept."""
        if ref not in self._rows:
            text = self._row(ref)
            head, is_closed, readings = parse_row(text) if text is not None else ("", False, [])
            self._rows[ref] = head, [] if is_closed else readings
        return self._rows[ref]


def kept_of(record: Record, table: ValueTable, circumstances: str, course: str) -> Iterator[tuple[str, str]]:
    """What is to be kept under the names in ALL. Raises Unwritable."""
    yield "record", record_text(record, table)
    yield "circumstances", circumstances
    yield "course", course
    yield "table", str(table)


def reread(
    edit: Edit, moves: Mapping[str, Move], kept: Kept, project: Project, make_engine: Callable[[], Engine]
) -> Reread:
    """`moves`: from the lines of the record to today's. Raises Unanswered, Unclear, KeyError or Unwritable."""
    if edit.attributes or edit.bindings:
        # Any function may look at these.
        raise Unanswered
    edited = set(edit.rewritten)
    before = kept.record
    again = Record()
    again.state.tact = TACT
    answers, changes = json.loads(kept.circumstances)
    elsewhere = Elsewhere(lambda ref: kept.function(ref)[1], answers, changes, before.state)
    rows = {ref: _reread_one(ref, kept, project, make_engine, elsewhere, again) for ref in sorted(edited)}
    after = without(before, edited, edit.replaying, project, moves)
    add(after, again)
    if are_judged(edited, edited, before, after) or any(_is_root_anew(ref, before, again) for ref in edited):
        raise Unanswered
    for path in edit.replaying:
        after.replays.update(replays_of(project, path))
    return Reread(after, dict(kept_of(after, kept.table, kept.circumstances, kept.course)), rows)


def _reread_one(
    ref: str, kept: Kept, project: Project, make_engine: Callable[[], Engine], elsewhere: Elsewhere, record: Record
) -> str:
    """Read it in every way in which it was read; what is to be kept of its readings."""
    head, readings = kept.function(ref)
    node = _node(ref, head, project)
    if not readings:
        raise Unanswered
    table = kept.table
    texts: list[str] = []
    for reading in readings:
        engine = make_engine()
        engine.record, engine.state = record, record.state
        engine.state.clock = reading.clock
        oracle = Oracle(project, ref, reading, table, elsewhere, record.state)
        engine.journal = oracle
        call = call_of(reading.question, reading.order, table)
        assert question_of(call, table) == reading.question
        try:
            result = engine.read_anew(call, node)
            oracle.finish()
        finally:
            # An engine holds itself: what was kept must not last as long.
            engine.journal = None
        if table.number(result) != reading.result:
            raise Unanswered
        texts.append(reading_text(replace(reading, text=items_text(oracle.items))))
    return row_text(head, False, texts)


def _node(ref: str, head: str, project: Project) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The function, if its header is what it was; else raises Unanswered."""
    node = project.function_node(ref)
    if node is None or header(project, ref, node) != head:
        raise Unanswered
    return node


def _is_root_anew(ref: str, before: Record, again: Record) -> bool:
    """Whether a function has become a root by what it does, or is none any more."""
    return (ref in again.roots and ref not in before.roots) or (
        before.roots.get(ref) == SITE and ref not in again.roots
    )


def retraced(
    edit: Edit,
    moves: Mapping[str, Move],
    trace: Trace,
    project: Project,
    make_engine: Callable[[], Engine],
    config: Config,
) -> Record:
    """The record of a scan of today's files, for an edit that changes what functions do to others.

    Raises Unanswered or Unclear.
    """
    for ref in edit.rewritten:
        _node(ref, trace.head(ref), project)
    # What stands at the level of a module is no function's reading.
    sites = {step.ref for step in trace.steps if step.reads_outside}
    live = {*edit.rewritten, *trace.naming(edit.attributes, project), *sites}
    for attempt in range(MAX_ATTEMPTS):
        engine = make_engine()
        again = Retrace(engine, trace, moves, edit, live)
        try:
            for step in trace.steps:
                again.take(step, config)
            again.finish()
        except Restart as restart:
            live |= restart.refs
            if attempt == FEW_ATTEMPTS:
                # There will be others: models hand what their functions define inside to one another.
                live |= again.live | trace.closed
            continue
        after = without(trace.record, again.live, edit.replaying, project, moves)
        after.roots = engine.record.roots
        after.state = StateLog(writes=after.state.writes)
        add(after, engine.record)
        if are_judged(again.live, edit.rewritten, trace.record, after):
            break
        for path in edit.replaying:
            after.replays.update(replays_of(project, path))
        return after
    raise Unanswered
