"""The calls that lead to single events.

A function may have an event only for the arguments of some calls: `f(x, device="cpu")` draws on the host,
`f(x, device="cuda")` does not. So a chain of calls that leads to the function may not lead to the event. This module
follows calls from one summary to the next, because each summary belongs to certain arguments. Guarded calls are not
followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from graphsafe.scan.domain.record import Calls, Edge, Place
from graphsafe.scan.domain.summary import Included, Summary

Chain = tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class _Context:
    """A function that is read for some arguments."""

    ref: str
    summary: Summary
    callers: list[tuple[int, Edge]] = field(default_factory=list)
    "The ids of the summaries of calling functions, each with a call."
    calls: list[tuple[int, Edge]] = field(default_factory=list)
    "The ids of the summaries of called functions, each with a call."


def leading_to(steps: Iterable[Summary]) -> dict[Place, Calls]:
    """Return the calls that lead to each unguarded event."""
    begun = {id(item.summary): item for step in steps for item in step.items if type(item) is Included}
    contexts = _contexts(begun.values())
    chains = _chains(begun, contexts)
    holders: dict[Place, list[tuple[int, bool]]] = {}
    "Place -> the contexts with the event, each with whether the event is only `possible` there."
    for one, context in contexts.items():
        for place, event in context.summary.events:
            if event.guard is None and place.ref == context.ref:
                holders.setdefault(place, []).append((one, event.confidence == "possible"))
    known: dict[tuple[tuple[int, bool], ...], Calls] = {}
    for held in holders.values():
        if (key := tuple(held)) not in known:
            edges, before = _calls_before([one for one, _ in held], contexts)
            roots = frozenset(begun[one].callee for one in before if one in begun)
            own = min(((doubtful, *_order(chains[one]), one) for one, doubtful in held if one in chains), default=None)
            known[key] = Calls(edges, roots, chains[own[-1]] if own is not None else None)
    return {place: known[tuple(held)] for place, held in holders.items()}


def _contexts(begun: Iterable[Included]) -> dict[int, _Context]:
    found = {id(item.summary): _Context(item.callee, item.summary) for item in begun if not item.guarded}
    waiting = [*found.values()]
    while waiting:
        caller = waiting.pop()
        edges: dict[str, Edge] = {}
        "Callee -> the last call so far to this callee."
        for item in caller.summary.items:
            if type(item) is Edge:
                edges[item.callee] = item
            elif type(item) is Included and not item.guarded and item.callee in edges:
                one = id(item.summary)
                if one not in found:
                    found[one] = _Context(item.callee, item.summary)
                    waiting.append(found[one])
                found[one].callers.append((id(caller.summary), edges[item.callee]))
                caller.calls.append((one, edges[item.callee]))
    return found


def _chains(begun: Iterable[int], contexts: Mapping[int, _Context]) -> Mapping[int, Chain]:
    """Return the shortest chain of calls to each context. Of several chains with the same length, the first one in
    their order is returned."""
    level = sorted((one for one in begun if one in contexts), key=lambda one: contexts[one].ref)
    found: dict[int, Chain] = dict.fromkeys(level, ())
    while level:
        following: list[int] = []
        for one in level:
            for callee, edge in sorted(contexts[one].calls, key=lambda call: (call[1].line, call[1].callee)):
                if callee not in found:
                    found[callee] = (*found[one], edge)
                    following.append(callee)
        level = following
    return found


def _order(chain: Chain) -> tuple[int, list[tuple[str, int, str]]]:
    return len(chain), [(edge.caller, edge.line, edge.callee) for edge in chain]


def _calls_before(held: Iterable[int], contexts: Mapping[int, _Context]) -> tuple[frozenset[Edge], set[int]]:
    """Return the calls that lead to any of these contexts, and all contexts on the way."""
    edges: set[Edge] = set()
    waiting, seen = [*held], {*held}
    while waiting:
        for caller, edge in contexts[waiting.pop()].callers:
            edges.add(edge)
            if caller not in seen:
                seen.add(caller)
                waiting.append(caller)
    return frozenset(edges), seen


def joined(parts: Iterable[Mapping[Place, Calls]]) -> dict[Place, Calls]:
    """Join the calls that several processes have found."""
    found: dict[Place, Calls] = {}
    for part in parts:
        for place, calls in part.items():
            known = found.setdefault(place, calls)
            if known is not calls:
                chains = [chain for chain in (known.chain, calls.chain) if chain is not None]
                chain = min(chains, key=_order, default=None)
                found[place] = Calls(known.edges | calls.edges, known.begun | calls.begun, chain)
    return found
