"""Joins the summaries of all roots and of all called functions into the record of hot code.

Each part of a record is a set, or is stored separately for each root. So the order of the roots does not matter, and
several processes can share the work. Each process gathers its own record, and `joined` joins the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from graphsafe.scan.domain.events import Event, plainness
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.record import SITE, Edge, Failure, Place, Record
from graphsafe.scan.domain.state_log import SELDOM, Read, Refill, StateLog, Use, Write
from graphsafe.scan.domain.state_log import Place as WritePlace
from graphsafe.scan.domain.summary import (
    Field,
    Included,
    Item,
    MadeInStep,
    NewRoot,
    PassedByName,
    RootSite,
    StepInput,
    Summary,
)
from graphsafe.scan.domain.values import Tensor, Value
from graphsafe.scan.hazards import draws
from graphsafe.scan.linting import event_calls, fresh_starts
from graphsafe.scan.linting.fresh_starts import FreshStarts
from graphsafe.scan.symbols.project import Project

Writes = dict[WritePlace, dict[str, Write]]
"Place -> the writes at this place, by their text."
Key = TypeVar("Key")
Element = TypeVar("Element")


def included(summaries: Iterable[Summary]) -> Iterator[Summary]:
    """Yield these summaries and all summaries that they include, each once."""
    seen: set[int] = set()
    waiting = list(summaries)
    while waiting:
        summary = waiting.pop()
        if id(summary) in seen:
            continue
        seen.add(id(summary))
        yield summary
        waiting += [item.summary for item in summary.items if type(item) is Included]


def called_in(summaries: Iterable[Summary]) -> Iterator[str]:
    """Yield the functions that hot code calls."""
    return (item.callee for summary in summaries for item in summary.items if type(item) is Edge)


def new_roots(step: Summary, seen: set[tuple[int, bool]]) -> Iterator[NewRoot]:
    """Yield the roots to which a step leads. If no capture reaches a call, the roots to which the call leads are
    guarded. `seen` contains the summaries that have already been searched: their ids, and whether they are guarded."""
    waiting = [(step, False)]
    while waiting:
        summary, guarded = waiting.pop()
        if seen.isdisjoint(((id(summary), guarded), (id(summary), False))):
            seen.add((id(summary), guarded))
            for item in summary.items:
                if type(item) is Included:
                    waiting.append((item.summary, guarded or item.guarded))
                elif type(item) is NewRoot:
                    yield replace(item, guarded=True) if guarded and not item.why else item


def passed_by_name(summaries: Iterable[Summary]) -> dict[str, dict[str, list[Tensor]]]:
    """Return the tensors that calls pass to methods of which only the name is known, by method and parameter."""
    found: dict[str, dict[str, list[Tensor]]] = {}
    for summary in summaries:
        for item in summary.items:
            if type(item) is PassedByName:
                found.setdefault(item.method, {}).setdefault(item.tensor.name or "", []).append(item.tensor)
    return found


def on_host(passed: Mapping[str, Mapping[str, Sequence[Tensor]]]) -> dict[str, dict[str, Tensor]]:
    """Return, for each method, the parameters that are host tensors in every call."""
    found: dict[str, dict[str, Tensor]] = {}
    for method, parameters in passed.items():
        for name, tensors in parameters.items():
            joined = join_all(sorted(tensors, key=repr))
            if type(joined) is Tensor and joined.where == "host":
                found.setdefault(method, {})[name] = joined
    return found


def constructions(
    summaries: Iterable[Summary], composed: Mapping[Field, Sequence[Value]]
) -> dict[Field, Sequence[Value]]:
    """Map each attribute or constructor parameter of a class to the values that constructor calls give to it. The calls
    of `composed` are in constructors that no step runs."""
    found: dict[Field, dict[str, Value]] = {}
    for table in (*(summary.constructed for summary in summaries), composed):
        for key, values in table.items():
            found.setdefault(key, {}).update((repr(value), value) for value in values)
    return {key: [values[text] for text in sorted(values)] for key, values in found.items()}


def gather(named: Sequence[tuple[str, Summary]]) -> Record:
    """Make the record from the summaries of the driver's steps, each with the name of its root. The only roots in this
    record are the functions that contain a capture."""
    steps = [summary for _, summary in named]
    record = Record()
    writes: Writes = {}
    between: Writes = {}
    seen: set[tuple[int, int]] = set()
    "The writes that were recorded, by id and by the level of the guard around them. Summaries share most writes."
    for summary, guarded, without_uses in _states(steps):
        for place, event in summary.events:
            _add_event(record, place, replace(event, guard=GUARDED) if guarded and event.guard is None else event)
        for item in summary.items:
            if type(item) is Edge:
                record.edge(replace(item, guarded=True) if guarded else item)
            elif type(item) is Write and (id(item), guarded) not in seen:
                seen.add((id(item), guarded))
                if guarded and item.guard is None:
                    item = replace(item, guard=SELDOM if guarded == _SELDOM else GUARDED)
                (between if item.between else writes).setdefault(item.place, {})[repr(item)] = item
            elif type(item) is Use:
                if not without_uses:
                    _add_use(record, item)
            elif type(item) is Read:
                record.state.readers.setdefault(item.key, set()).add(item)
            elif type(item) is StepInput or type(item) is Refill or type(item) is MadeInStep:
                _add_fact(record.state, item)
            elif type(item) is RootSite:
                record.roots[item.ref] = SITE
            elif type(item) is Failure:
                record.failures[item] = None
    record.state.writes = {place: _of_place(found) for place, found in writes.items()}
    record.state.between = {place: _of_place(found) for place, found in between.items()}
    _order(record.state, named)
    record.leading = event_calls.leading_to(steps)
    return record


def include(record: Record, part: Record, doubtful: bool = False) -> None:
    """Add the calls and the events of some functions. If it is doubtful whether the functions run in a step, the events
    become `possible`."""
    for place, event in part.events.items():
        _add_event(record, place, replace(event, confidence="possible") if doubtful else event)
    for callee, edges in part.edges.items():
        record.edges.setdefault(callee, {}).update(edges)
    record.failures.update(part.failures)
    record.leading = event_calls.joined((record.leading, part.leading))


def joined(project: Project, records: Sequence[Record], whys: Mapping[str, str]) -> Record:
    """Join several records into one. `whys` gives the reason for each root function."""
    record = Record(roots=dict(sorted(whys.items())))
    state = record.state
    writes: Writes = {}
    between: Writes = {}
    for part in records:
        include(record, part)
        _add_writes(writes, part.state.writes)
        _add_writes(between, part.state.between)
        for use in part.state.uses.values():
            _add_use(record, use)
        _add_sets(state.used_before, part.state.used_before)
        _add_sets(state.continued, part.state.continued)
        _add_sets(state.carried, part.state.carried)
        _add_sets(state.readers, part.state.readers)
        state.inputs |= part.state.inputs
        state.refills |= part.state.refills
        state.made |= part.state.made
        state.read_before |= part.state.read_before
        state.read_old |= part.state.read_old
        record.replays.update(part.replays)
    for ref in sorted({ref for part in records for ref in part.roots}):
        record.roots.setdefault(ref, SITE)
    state.writes = {place: _of_place(writes[place]) for place in sorted(writes)}
    state.between = {place: _of_place(between[place]) for place in sorted(between)}
    record.failures = dict.fromkeys(sorted(record.failures, key=repr))
    record.edges = {callee: dict.fromkeys(sorted(edges, key=repr)) for callee, edges in sorted(record.edges.items())}
    state.fresh = fresh_starts.places(record)
    draws_of_host = [place for place, event in record.events.items() if event.how == "host-random" and not event.guard]
    for at in draws_of_host:
        if draws.called_in_training(project, record, at.ref):
            record.events[at] = replace(record.events[at], guard=draws.IN_TRAINING)
    record.events = {place: record.events[place] for place in sorted(record.events, key=_in_order)}
    record.replays = {place: record.replays[place] for place in sorted(record.replays, key=_in_order)}
    return record


def _add_fact(state: StateLog, item: StepInput | Refill | MadeInStep) -> None:
    if isinstance(item, StepInput):
        state.inputs.add(item.attribute)
    elif isinstance(item, Refill):
        state.refills.add(item)
    else:
        state.made.add(item.ref)


def _add_event(record: Record, place: Place, event: Event) -> None:
    known = record.events.get(place)
    if known is None or (event is not known and _rank(event) < _rank(known)):
        record.events[place] = event


def _add_writes(ours: Writes, theirs: Mapping[WritePlace, Sequence[Write]]) -> None:
    for place, found in theirs.items():
        ours.setdefault(place, {}).update((repr(write), write) for write in found)


def _add_sets(ours: dict[Key, set[Element]], theirs: Mapping[Key, set[Element]]) -> None:
    for key, found in theirs.items():
        ours.setdefault(key, set()).update(found)


def _add_use(record: Record, use: Use) -> None:
    known = record.state.uses.get(use.place)
    record.state.uses[use.place] = use if known is None or known is use else min(use, known, key=repr)


def _of_place(writes: Mapping[str, Write]) -> list[Write]:
    """Return the writes that captures reach, or all writes if captures reach none, in a fixed order."""
    found = [writes[text] for text in sorted(writes)]
    return [write for write in found if write.guard is None] or found


GUARDED = "only calls that no capture reaches lead here"
_NOT, _SELDOM, _ALWAYS = range(3)
"The level of the guard around a call: no guard, a guard only in most steps, or a guard in all steps."


def _in_order(place: Place) -> tuple[object, ...]:
    return place.path, place.span, place.kind, place.how, place.function


_TYPED = re.compile(r"\b(a boolean|an integer) \w*\s?tensor$")
"Matches the description of a value that names the type of a tensor's elements (domain/values.py)."


def _rank(event: Event) -> tuple[object, ...]:
    """Return a sort key for the events at one place. Unguarded, certain and severe events come first. If the calls of a
    function pass tensors of several types, the message names no type: `a device tensor`, not `a boolean device
    tensor`."""
    words = sorted(event.words.items())
    names_type = _TYPED.search(event.words.get("value", "")) is not None
    return *plainness(event), names_type, words, event.guard or "", event.once, repr(event.compile_test)


def _states(steps: Iterable[Summary]) -> Iterator[tuple[Summary, int, bool]]:
    """Yield each summary once for each way in which it is included. The ways differ in the level of the guard, and in
    whether the summary's uses count."""
    seen: dict[int, list[tuple[int, bool, bool]]] = {}
    waiting = [(summary, _NOT, False, False) for summary in steps]
    while waiting:
        summary, guarded, once, without_uses = waiting.pop()
        # Effects in a function that captures are not limited to the first step: the first step captures them, and all
        # later steps replay them.
        once = once and not any(type(item) is RootSite for item in summary.items)
        known = seen.setdefault(id(summary), [])
        if any(g <= guarded and o <= once and w <= without_uses for g, o, w in known):
            continue
        known.append((guarded, once, without_uses))
        yield summary, _ALWAYS if once else guarded, without_uses
        for item in summary.items:
            if type(item) is Included:
                unused = without_uses or item.without_uses
                further = _NOT if not item.guarded else _SELDOM if item.seldom else _ALWAYS
                waiting.append((item.summary, max(guarded, further), once or item.once, unused))


# the order of events in a step


def _order(state: StateLog, named: Iterable[tuple[str, Summary]]) -> None:
    """For each root, record the places that write state after the same step has read or used it."""
    keys = {write.key for writes in state.writes.values() for write in writes}
    state_items: dict[int, Sequence[Item]] = {}
    for root, step in named:
        if _state_items(step, keys, state_items):
            _order_in(state, step, state_items)
            FreshStarts(state, root, lambda summary: _state_items(summary, keys, state_items)).follow(step)


def _state_items(summary: Summary, keys: set[str], known: dict[int, Sequence[Item]]) -> Sequence[Item]:
    """Return the items that concern the order of reads and writes. These are all writes and captures, the reads and
    uses of state that is written, and the calls of functions that contain any of these."""
    if id(summary) not in known:
        known[id(summary)] = [
            item
            for item in summary.items
            if type(item) is Write
            or type(item) is RootSite
            or ((type(item) is Read or type(item) is Use) and item.key in keys)
            or (type(item) is Included and _state_items(item.summary, keys, known))
        ]
    return known[id(summary)]


def _order_in(state: StateLog, step: Summary, state_items: Mapping[int, Sequence[Item]]) -> None:
    seen: set[int] = set()
    read: set[str] = set()
    used: dict[str, set[tuple[str, str, int]]] = {}
    waiting: list[Iterator[Item]] = [iter(state_items[id(step)])]
    while waiting:
        item = next(waiting[-1], None)
        if item is None:
            waiting.pop()
        elif type(item) is Included:
            if id(item.summary) not in seen:
                seen.add(id(item.summary))
                waiting.append(iter(state_items[id(item.summary)]))
        elif type(item) is Read:
            if not item.own:
                read.add(item.key)
        elif type(item) is Use:
            used.setdefault(item.key, set()).add(item.place)
        elif type(item) is Write:
            if item.key in read:
                state.read_before.add(item.place)
            if item.key in used:
                state.used_before.setdefault(item.place, set()).update(used[item.key])
