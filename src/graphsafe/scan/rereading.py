"""After an edit of hot functions: these are read again, each with the answers that it got before.

Where they do to the rest of the scan what they did, the rest is as it was, and the record changes in their lines alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from graphsafe.scan.arguments import Arguments, Call
from graphsafe.scan.engine import Engine
from graphsafe.scan.events import Span
from graphsafe.scan.journal import header, outermost, question_of
from graphsafe.scan.moves import Move, Unclear, names_a_line
from graphsafe.scan.oracle import Elsewhere, Oracle, Reading, Unanswered
from graphsafe.scan.project import Project
from graphsafe.scan.reader import replays_of
from graphsafe.scan.record import SITE, Edge, Record
from graphsafe.scan.record_form import parse_record, record_text
from graphsafe.scan.value_table import ValueTable

ALL = ("table", "record", "circumstances")
"Names of what is kept of a scan as a whole, beside the readings of each function."
TACT = 2.0**-20
"Between two ticks of the clock of the scan before."
_READING = tuple(field.name for field in fields(Reading))
UNSURE = "host-random"
"Such an event is judged by its callers too, by those that were known at the time."


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
        self.record = whole["record"]
        self.circumstances = whole["circumstances"]
        self._row = row
        self._rows: dict[str, tuple[str, Sequence[Reading]]] = {}

    def function(self, ref: str) -> tuple[str, Sequence[Reading]]:
        """Its header's digest, and its readings: none where they are not kept."""
        if ref not in self._rows:
            text = self._row(ref)
            head, readings = json.loads(text) if text is not None else ("", ())
            self._rows[ref] = head, [Reading(*reading) for reading in readings]
        return self._rows[ref]


def kept_of(record: Record, table: ValueTable, circumstances: str) -> Iterator[tuple[str, str]]:
    """What is to be kept under the names in ALL. Raises Unwritable."""
    yield "record", record_text(record, table)
    yield "circumstances", circumstances
    yield "table", str(table)


def reread(
    rewritten: Iterable[str],
    replaying: Collection[str],
    moves: Mapping[str, Move],
    kept: Kept,
    project: Project,
    make_engine: Callable[[], Engine],
) -> Reread:
    """`replaying`: edited files that replay graphs. `moves`: from the lines of the record to today's.

    Raises Unanswered, Unclear, KeyError or Unwritable.
    """
    edited = set(rewritten)
    before = parse_record(kept.record, kept.table)
    after = _without(before, edited, replaying, project, moves)
    again = Record()
    again.state.tact = TACT
    answers, changes = json.loads(kept.circumstances)
    elsewhere = Elsewhere(lambda ref: kept.function(ref)[1], answers, changes, before.state)
    rows = {ref: _reread_one(ref, kept, project, make_engine, elsewhere, again) for ref in sorted(edited)}
    _check(edited, before, again)
    _add(after, again)
    for path in replaying:
        after.replays.update(replays_of(project, path))
    return Reread(after, dict(kept_of(after, kept.table, kept.circumstances)), rows)


def _reread_one(
    ref: str, kept: Kept, project: Project, make_engine: Callable[[], Engine], elsewhere: Elsewhere, record: Record
) -> str:
    """Read it in every way in which it was read; what is to be kept of its readings."""
    head, readings = kept.function(ref)
    node = project.function_node(ref)
    facts = project.function_facts(ref)
    if not readings or node is None or facts is None or header(project, ref, node) != head:
        raise Unanswered
    table = kept.table
    texts: list[str] = []
    for reading in readings:
        engine = make_engine()
        engine.record, engine.state = record, record.state
        engine.state.clock = reading.clock
        oracle = Oracle(project, ref, reading, table, elsewhere, record.state)
        engine.journal = oracle
        result = engine.read_anew(_call(reading, table), node)
        oracle.finish()
        if table.number(result) != reading.result:
            raise Unanswered
        asked = replace(reading, items=oracle.items)
        texts.append(json.dumps([getattr(asked, name) for name in _READING], separators=(",", ":")))
    return f'["{head}",[{",".join(texts)}]]'


def _call(reading: Reading, table: ValueTable) -> Call:
    ref, bound, positional, keywords, is_open, hot, guarded, depth = reading.question
    named = {name: table.some(value) for name, value in keywords}
    arguments = Arguments(
        tuple(map(table.some, positional)), {name: named[name] for name in reading.order}, bool(is_open)
    )
    call = Call(table.text(ref), table.value(bound), arguments, bool(hot), bool(guarded), depth)
    assert question_of(call, table) == reading.question
    return call


def _without(
    record: Record, edited: set[str], replaying: Collection[str], project: Project, moves: Mapping[str, Move]
) -> Record:
    """The record but for what these functions do, with today's lines."""
    paths = {ref.partition("::")[0] for ref in edited}

    def is_edited(path: str, function: str) -> bool:
        return path in paths and outermost(project, f"{path}::{function}") in edited

    replays = {place: event for place, event in record.replays.items() if place.path not in replaying}
    left = Record(roots=record.roots, replays=replays)
    for place, event in record.events.items():
        if is_edited(place.path, place.function):
            continue
        move = moves.get(place.path)
        if move is not None:
            if any(map(names_a_line, event.words.values())):
                raise Unclear
            event = replace(event, span=_moved(event.span, move))
            place = replace(place, function=move.name(place.function), span=event.span)
        left.events[place] = event
    for callee, edges in record.edges.items():
        kept = [_moved_edge(edge, moves) for edge in edges if not is_edited(*_parts(edge.caller))]
        if kept:
            left.edges[_moved_ref(callee, moves)] = dict.fromkeys(kept)
    state = left.state
    for write in record.state.writes.values():
        if not is_edited(write.path, write.function):
            move = moves.get(write.path)
            if move is not None:
                if names_a_line(write.key):
                    raise Unclear
                write = replace(write, function=move.name(write.function), span=_moved(write.span, move))
            state.writes[write.path, write.span] = write
    for use in record.state.uses.values():
        if not is_edited(use.path, use.function):
            move = moves.get(use.path)
            if move is not None:
                use = replace(use, function=move.name(use.function), line=move.line(use.line))
            state.uses[use.key, use.path, use.line] = use
    state.reads.update(record.state.reads)
    state.inputs.update(record.state.inputs)
    return left


def _moved(span: Span, move: Move) -> Span:
    first, column, last, end = span
    return move.line(first), column, move.line(last), end


def _moved_edge(edge: Edge, moves: Mapping[str, Move]) -> Edge:
    move = moves.get(_parts(edge.caller)[0])
    return edge if move is None else replace(edge, caller=_moved_ref(edge.caller, moves), line=move.line(edge.line))


def _moved_ref(ref: str, moves: Mapping[str, Move]) -> str:
    path, function = _parts(ref)
    return f"{path}::{moves[path].name(function)}" if path in moves else ref


def _parts(ref: str) -> tuple[str, str]:
    path, _, function = ref.partition("::")
    return path, function


def _check(edited: Collection[str], before: Record, again: Record) -> None:
    """Raises Unanswered where what these functions do is of consequence for others after all."""
    for ref in edited:
        if (ref in again.roots and ref not in before.roots) or (
            before.roots.get(ref) == SITE and ref not in again.roots
        ):
            raise Unanswered
    places = (*before.events.items(), *again.events.items())
    judged = {f"{place.path}::{place.function}" for place, event in places if event.how == UNSURE}
    for ref in judged:
        concerned = {ref, *(edge.caller for record in (before, again) for edge in record.edges.get(ref, ()))}
        if any(one == name or one.startswith(f"{name}.") for one in concerned for name in edited):
            raise Unanswered


def _add(record: Record, again: Record) -> None:
    record.events.update(again.events)
    for callee, edges in again.edges.items():
        record.edges.setdefault(callee, {}).update(edges)
    record.state.writes.update(again.state.writes)
    record.state.uses.update(again.state.uses)
    for key, order in again.state.reads.items():
        record.state.reads[key] = min(order, record.state.reads.get(key, order))
    record.state.inputs |= again.state.inputs
