"""A record after an edit: without what some functions did, with what they do now, and with today's lines."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from graphsafe.scan.domain.events import Span
from graphsafe.scan.domain.record import Edge, Record
from graphsafe.scan.incremental.journal import outermost
from graphsafe.scan.incremental.moves import Move, Unclear, names_a_line
from graphsafe.scan.symbols.project import Project

UNSURE = "host-random"
"Such an event is judged by its callers too, by those that were known at the time."


def without(
    record: Record, edited: set[str], replaying: Collection[str], project: Project, moves: Mapping[str, Move]
) -> Record:
    """The record but for what these functions do, with today's lines; `replaying`: edited files that replay graphs.

    Raises Unclear.
    """
    paths = {ref.partition("::")[0] for ref in edited}
    touched = tuple(f"{path}::" for path in {*paths, *moves})

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
        if not any(edge.caller.startswith(touched) for edge in edges):
            left.edges[_moved_ref(callee, moves)] = dict(edges)
            continue
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
            state.uses[use.place] = use
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


def are_judged(live: Collection[str], rewritten: Collection[str], before: Record, after: Record) -> bool:
    """Whether something must be judged anew that callers have a say in: by those that were known when it was read.

    `live` functions were read again, `rewritten` ones have another text.
    """
    places = (*before.events.items(), *after.events.items())
    for ref in {f"{place.path}::{place.function}" for place, event in places if event.how == UNSURE}:
        was, now = ({(edge.caller, edge.guarded) for edge in record.edges.get(ref, ())} for record in (before, after))
        if was != now or _is_among(ref, live) or any(_is_among(caller, rewritten) for caller, _ in now):
            return True
    return False


def _is_among(ref: str, functions: Collection[str]) -> bool:
    """Whether it is one of these, or defined inside one."""
    while ref and ref not in functions:
        ref = ref.rpartition(".")[0]
    return bool(ref)


def add(record: Record, again: Record) -> None:
    """Add what functions do to a record without it."""
    record.events.update(again.events)
    for callee, edges in again.edges.items():
        record.edges.setdefault(callee, {}).update(edges)
    record.state.writes.update(again.state.writes)
    record.state.uses.update(again.state.uses)
    for key, order in again.state.reads.items():
        record.state.reads[key] = min(order, record.state.reads.get(key, order))
    record.state.inputs |= again.state.inputs
