"""A record as JSON, with the values of a table, and back."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from graphsafe.scan.domain.events import Event
from graphsafe.scan.domain.record import Edge, Place, Record
from graphsafe.scan.domain.state_log import Use, Write
from graphsafe.scan.incremental.value_table import ValueTable

WRITE = tuple(field.name for field in fields(Write))


def record_text(record: Record, table: ValueTable) -> str:
    """Raises Unwritable."""
    name = table.name
    state = record.state
    parts = (
        [_event(place, event, table) for place, event in record.events.items()],
        [_event(place, event, table) for place, event in record.replays.items()],
        [
            [name(callee), [[name(edge.caller), edge.line, int(edge.guarded)] for edge in edges]]
            for callee, edges in record.edges.items()
        ],
        [[name(ref), why] for ref, why in record.roots.items()],
        [[_written(getattr(write, field), field, table) for field in WRITE] for write in state.writes.values()],
        [
            [name(use.key), use.kind, name(use.path), name(use.function), use.line, use.order]
            for use in state.uses.values()
        ],
        [[name(key), order] for key, order in state.reads.items()],
        [name(key) for key in sorted(state.inputs)],
    )
    return json.dumps(parts, separators=(",", ":"))


def parse_record(text: str, table: ValueTable) -> Record:
    events, replays, edges, roots, writes, uses, reads, inputs = json.loads(text)
    record = Record()
    name = table.text
    record.events.update(_read_event(row, table) for row in events)
    record.replays.update(_read_event(row, table) for row in replays)
    for callee, calls in edges:
        found: dict[Edge, None] = {}
        for caller, number, guarded in calls:
            found[Edge(name(caller), number, bool(guarded))] = None
        record.edges[name(callee)] = found
    record.roots.update((name(ref), why) for ref, why in roots)
    state = record.state
    for row in writes:
        write = _read_write(row, table)
        state.writes[write.path, write.span] = write
    for key, kind, path, function, number, order in uses:
        use = Use(name(key), kind, name(path), name(function), number, order)
        state.uses[use.place] = use
    state.reads.update((name(key), order) for key, order in reads)
    state.inputs.update(map(name, inputs))
    return record


def _event(place: Place, event: Event, table: ValueTable) -> list[Any]:
    return [
        table.name(place.path),
        table.name(place.function),
        event.span,
        event.kind,
        event.how,
        event.confidence,
        event.guard,
        event.level,
        dict(event.words),
        int(event.once),
    ]


def _read_event(row: list[Any], table: ValueTable) -> tuple[Place, Event]:
    path, function, span, kind, how, confidence, guard, level, words, once = row
    first, column, last, end = span
    event = Event(kind, how, (first, column, last, end), confidence, guard, level, words, bool(once))
    return Place(table.text(path), table.text(function), event.span, kind, how), event


def _written(value: Any, field: str, table: ValueTable) -> Any:
    if field in ("value", "before"):
        return table.bare_number(value)
    return sorted(value) if field == "sources" else value


def _read_write(row: list[Any], table: ValueTable) -> Write:
    known = dict(zip(WRITE, row, strict=True))
    known.update(value=table.value(known["value"]), before=table.value(known["before"]))
    known.update(span=tuple(known["span"]), sources=frozenset(known["sources"]))
    return Write(**known)
