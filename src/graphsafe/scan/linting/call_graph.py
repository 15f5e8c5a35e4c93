"""The calls between hot functions, and the shortest chains of calls from roots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from graphsafe.scan.domain.record import Calls, Edge, Record
from graphsafe.scan.roots.assumed_roots import DOUBTFUL
from graphsafe.scan.sources.node_memo import memoize_method


def root_of(chain: Sequence[Edge], ref: str) -> str:
    """Return the function at which a chain of calls to a function begins."""
    return chain[0].caller if chain else ref


class CallGraph:
    """The roots of a record, and the calls that lead from them to other hot functions."""

    def __init__(self, record: Record) -> None:
        self._calls: dict[str, list[Edge]] = {}
        "Calling function -> its calls."
        self._callees: dict[str, dict[str, None]] = {}
        self._edges = record.edges
        for edge in (edge for edges in record.edges.values() for edge in edges):
            self._calls.setdefault(edge.caller, []).append(edge)
            self._callees.setdefault(edge.caller, {})[edge.callee] = None

        doubtful = {ref for ref, why in record.roots.items() if why in DOUBTFUL}
        # A doubtful root that a certain root reaches does not count as a root.
        reached = self.reached(record.roots.keys() - doubtful, frozenset()) if doubtful else doubtful
        self.roots = {ref: why for ref, why in record.roots.items() if ref not in doubtful & reached}
        "Root function -> the reason why it is a root."
        self._doubtful = doubtful - reached

    def is_certain(self, root: str) -> bool:
        return root in self.roots and root not in self._doubtful

    def only(self, calls: Calls) -> CallGraph:
        """Return the part of the graph with these calls."""
        record = Record(roots={ref: self.roots[ref] for ref in calls.begun & self.roots.keys()})
        for edge in calls.edges:
            record.edge(edge)
        return CallGraph(record)

    def unguarded(self, caller: str) -> Iterator[str]:
        """Yield the functions that `caller` calls on lines that captures reach."""
        return (edge.callee for edge in self._calls.get(caller, ()) if not edge.guarded)

    def calls_in(self, caller: str, blocks: Sequence[tuple[int, int]]) -> Iterator[Edge]:
        """Yield the calls of `caller` inside these blocks, which are given by first and last lines."""
        calls = self._calls.get(caller, ())
        return (edge for edge in calls if any(first <= edge.line <= last for first, last in blocks))

    def reached(self, begun: Iterable[str], without: Set[str]) -> frozenset[str]:
        """Return the functions `begun`, and all functions that they reach by calls. Functions in `without` are left out
        and not followed."""
        stack = [ref for ref in begun if ref not in without]
        seen = set(stack)
        while stack:
            found = self._callees.get(stack.pop(), {}).keys() - seen - without
            seen |= found
            stack += found
        return frozenset(seen)

    def callers(self, callee: str) -> frozenset[tuple[str, int]]:
        """Return the functions that call `callee`, each with the line of a call."""
        return frozenset((edge.caller, edge.line) for edge in self._edges.get(callee, ()))

    def captures(self, is_compiled: Callable[[str], bool]) -> Mapping[str, Set[bool]]:
        """Map each hot function to the kinds of captures that reach it. True stands for captures under torch.compile,
        and False stands for captures without torch.compile.

        `is_compiled` returns whether a function is itself compiled. The functions that a compiled function calls are
        compiled too.
        """
        waiting = [(ref, is_compiled(ref)) for ref in self.roots]
        found: dict[str, set[bool]] = {}
        while waiting:
            ref, compiled = waiting.pop()
            if compiled in found.setdefault(ref, set()):
                continue
            found[ref].add(compiled)
            for edge in self._calls.get(ref, ()):
                if edge.compile_test is None or edge.compile_test.compiling is compiled:
                    waiting.append((edge.callee, compiled or is_compiled(edge.callee)))
                else:
                    found.setdefault(edge.callee, set())
        # If no capture reaches any caller of a function, no capture reaches the function itself.
        unreached = [ref for ref, captures in found.items() if not captures]
        while unreached:
            callees = [callee for callee in self._callees.get(unreached.pop(), ()) if callee not in found]
            found.update((callee, set()) for callee in callees)
            unreached += callees
        return found

    @memoize_method
    def chains(self) -> Mapping[str, Sequence[Edge]]:
        """Return the shortest chain of edges from a root to each hot function. The chain is empty for a root.

        A chain from a doubtful root is returned only if no certain root leads to the function. A chain with a guarded
        call is returned only if every chain has a guarded call.
        """
        certain = self.roots.keys() - self._doubtful
        best: dict[str, tuple[Edge, ...]] = {}
        for begun, guarded in ((certain, False), (self._doubtful, False), (self.roots.keys(), True)):
            best = {**dict.fromkeys(begun, ()), **best}
            self._extend(best, guarded)
        return best

    def captured_chains(
        self, begun: Iterable[str], blocks: Mapping[str, Sequence[tuple[int, int]]], captured: Set[str]
    ) -> Mapping[str, Sequence[Edge]]:
        """Return the shortest chain of edges to each function in `captured`. Some chains start at a root in `begun`,
        because users capture these roots. The other chains start at a call in a captured block of the project. `blocks`
        maps each capturing function to such blocks."""
        best: dict[str, tuple[Edge, ...]] = dict.fromkeys(sorted(begun), ())
        for caller in sorted(blocks):
            for edge in self.calls_in(caller, blocks[caller]):
                best.setdefault(edge.callee, (edge,))
        self._extend(best, guarded=True, within=captured)
        return best

    def _extend(self, best: dict[str, tuple[Edge, ...]], guarded: bool, within: Set[str] | None = None) -> None:
        """Extend the chains in `best` by calls to functions without a chain. If `within` is given, only the functions
        in this set get a chain. Guarded calls are used only if `guarded` is True."""
        level = sorted(best)
        while level:
            following: list[str] = []
            for caller in level:
                new = [edge for edge in self._calls.get(caller, ()) if edge.callee not in best]
                for edge in sorted(new, key=lambda edge: (edge.line, edge.callee)):
                    callee = edge.callee
                    if callee not in best and edge.guarded <= guarded and (within is None or callee in within):
                        best[callee] = (*best[caller], edge)
                        following.append(callee)
            level = following

    def root_counts(self) -> Mapping[str, int]:
        """Return, for each hot function, the number of roots that reach it."""
        reached = {ref: 1 << number for number, ref in enumerate(self.roots)}
        order = self._callers_first()
        grows = True
        while grows:
            # Callers come before the functions that they call, except in recursion, so few passes are enough.
            grows = False
            for ref in order:
                bits = reached[ref]
                for callee in self._callees.get(ref, ()):
                    known = reached.get(callee, 0)
                    if known | bits != known:
                        reached[callee] = known | bits
                        grows = True
        return {ref: bits.bit_count() for ref, bits in reached.items()}

    def _callers_first(self) -> Sequence[str]:
        """Return the functions that roots reach, each after all of its callers, except where calls form a cycle."""
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
                stack += [(callee, False) for callee in self._callees.get(ref, ()) if callee not in seen]
        return order[::-1]
