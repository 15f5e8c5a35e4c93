"""What reading hot code brings to light: what its lines do, who calls whom, where it begins, what was not followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphsafe.report.model import Confidence
from graphsafe.scan.events import Event, EventKind, Span
from graphsafe.scan.state import StateLog

ENTRY_POINT = "an entry point of an engine"
SITE = "code inside torch.cuda.graph"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event is: what makes two events the same."""

    path: str
    function: str
    span: Span
    kind: EventKind
    how: str


@dataclass(frozen=True, slots=True)
class Edge:
    caller: str
    line: int
    guarded: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """Code that was not followed to its end; `kind` as in a report's limits."""

    kind: str
    ref: str
    why: str


@dataclass(slots=True)
class Record:
    events: dict[Place, Event] = field(default_factory=dict)
    edges: dict[str, dict[Edge, None]] = field(default_factory=dict)
    "Function -> the places that call it."
    roots: dict[str, str] = field(default_factory=dict)
    "Root function -> why it is one."
    state: StateLog = field(default_factory=StateLog)
    replays: dict[Place, Event] = field(default_factory=dict)
    "What is at fault around replays, hot or not."
    failures: dict[Failure, None] = field(default_factory=dict)

    def would_change(self, place: Place, guard: str | None, confidence: Confidence) -> bool:
        """Whether an event is plainer than what is known of its place; the plainest stays."""
        known = self.events.get(place)
        if known is None:
            return True
        return (guard is None, confidence != "possible") > (known.guard is None, known.confidence != "possible")

    def edge(self, callee: str, edge: Edge) -> None:
        self.edges.setdefault(callee, {})[edge] = None

    def in_graphs(self) -> frozenset[str]:
        """Functions that captured code reaches: not those that an engine only calls around its graphs."""
        callees: dict[str, list[str]] = {}
        for callee, edges in self.edges.items():
            for edge in edges:
                callees.setdefault(edge.caller, []).append(callee)
        stack = [ref for ref, why in self.roots.items() if why != ENTRY_POINT]
        seen = set(stack)
        while stack:
            for callee in callees.get(stack.pop(), ()):
                if callee not in seen:
                    seen.add(callee)
                    stack.append(callee)
        return frozenset(seen)

    def chains(self) -> Mapping[str, Sequence[Edge]]:
        """For each hot function its shortest way from a root: the edges from the root on, empty for a root.

        A guarded call is on the way only where there is no way without one.
        """
        best: dict[str, tuple[Edge, ...]] = {ref: () for ref in self.roots}
        callees: dict[str, list[tuple[str, Edge]]] = {}
        for callee, edges in self.edges.items():
            for edge in edges:
                callees.setdefault(edge.caller, []).append((callee, edge))
        for guarded in (False, True):
            level = sorted(best)
            while level:
                following: list[str] = []
                for caller in level:
                    for callee, edge in sorted(callees.get(caller, ()), key=lambda item: (item[1].line, item[0])):
                        if callee not in best and edge.guarded <= guarded:
                            best[callee] = (*best[caller], edge)
                            following.append(callee)
                level = following
        return best

    def root_counts(self) -> Mapping[str, int]:
        """How many roots reach each hot function."""
        callers = {callee: {edge.caller for edge in edges} for callee, edges in self.edges.items()}
        reached = {ref: 1 << number for number, ref in enumerate(self.roots)}
        order = self._callers_first()
        grows = True
        while grows:
            # Callers come first but for those in a ring of calls: few rounds reach everything.
            grows = False
            for ref in order:
                bits = known = reached.get(ref, 0)
                for caller in callers.get(ref, ()):
                    bits |= reached.get(caller, 0)
                if bits != known:
                    reached[ref] = bits
                    grows = True
        return {ref: bits.bit_count() for ref, bits in reached.items()}

    def _callers_first(self) -> Sequence[str]:
        """What roots reach, each after all of its callers where calls do not go in a ring."""
        callees: dict[str, list[str]] = {}
        for callee, edges in self.edges.items():
            for caller in {edge.caller: None for edge in edges}:
                callees.setdefault(caller, []).append(callee)
        order: list[str] = []
        seen: set[str] = set()
        stack = [(ref, False) for ref in self.roots]
        while stack:
            ref, is_done = stack.pop()
            if is_done:
                order.append(ref)
            elif ref not in seen:
                seen.add(ref)
                stack.append((ref, True))
                stack += [(callee, False) for callee in callees.get(ref, ()) if callee not in seen]
        return order[::-1]
