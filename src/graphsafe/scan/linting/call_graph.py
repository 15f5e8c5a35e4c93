"""Who calls whom in hot code, and the shortest chains from roots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from graphsafe.scan.domain.record import Edge, Record


class CallGraph:
    def __init__(self, record: Record) -> None:
        self._roots = record.roots
        self._calls: dict[str, list[tuple[int, str, Edge]]] = {}
        "Function -> the line of each call, what it calls, and the edge."
        self._callees: dict[str, dict[str, None]] = {}
        for callee, edges in record.edges.items():
            for edge in edges:
                caller = edge.caller
                if caller in self._calls:
                    self._calls[caller].append((edge.line, callee, edge))
                    self._callees[caller][callee] = None
                else:
                    self._calls[caller] = [(edge.line, callee, edge)]
                    self._callees[caller] = {callee: None}

    def unguarded(self, caller: str) -> Iterator[str]:
        """What a function calls wherever captures go."""
        return (callee for _, callee, edge in self._calls.get(caller, ()) if not edge.guarded)

    def called_in(self, caller: str, blocks: Sequence[tuple[int, int]]) -> Iterator[str]:
        """What a function calls between first and last lines."""
        for line, callee, _ in self._calls.get(caller, ()):
            if any(first <= line <= last for first, last in blocks):
                yield callee

    def reached(self, begun: Iterable[str], without: Set[str]) -> frozenset[str]:
        """These functions and all that they call, but for some and what only those call."""
        stack = [ref for ref in begun if ref not in without]
        seen = set(stack)
        while stack:
            found = self._callees.get(stack.pop(), {}).keys() - seen - without
            seen |= found
            stack += found
        return frozenset(seen)

    def captures(self, is_compiled: Callable[[str], bool]) -> Mapping[str, Set[bool]]:
        """For each hot function the captures that come to it: under torch.compile (True), without (False), or none.

        `is_compiled` says so of a root or function by itself; whatever such a one calls is compiled with it.
        """
        waiting = [(ref, is_compiled(ref)) for ref in self._roots]
        found: dict[str, set[bool]] = {}
        while waiting:
            ref, compiled = waiting.pop()
            if compiled in found.setdefault(ref, set()):
                continue
            found[ref].add(compiled)
            for _, callee, edge in self._calls.get(ref, ()):
                if edge.compile_test is None or edge.compile_test.compiling is compiled:
                    waiting.append((callee, compiled or is_compiled(callee)))
                else:
                    found.setdefault(callee, set())
        for ref in [ref for ref, captures in found.items() if not captures]:
            for callee in self._callees.get(ref, ()):
                self._nowhere(callee, found)
        return found

    def _nowhere(self, ref: str, found: dict[str, set[bool]]) -> None:
        """Note that no capture comes to a function, nor to what only such ones call."""
        waiting = [ref]
        while waiting:
            ref = waiting.pop()
            if ref not in found:
                found[ref] = set()
                waiting += self._callees.get(ref, ())

    def chains(self) -> Mapping[str, Sequence[Edge]]:
        """For each hot function its shortest way from a root: the edges from the root on, empty for a root.

        A guarded call is on the way only where there is no way without one.
        """
        best: dict[str, tuple[Edge, ...]] = {ref: () for ref in self._roots}
        for guarded in (False, True):
            level = sorted(best)
            while level:
                following: list[str] = []
                for caller in level:
                    new = [call for call in self._calls.get(caller, ()) if call[1] not in best]
                    for _, callee, edge in sorted(new, key=_line_and_callee):
                        if callee not in best and edge.guarded <= guarded:
                            best[callee] = (*best[caller], edge)
                            following.append(callee)
                level = following
        return best

    def root_counts(self) -> Mapping[str, int]:
        """How many roots reach each hot function."""
        reached = {ref: 1 << number for number, ref in enumerate(self._roots)}
        order = self._callers_first()
        grows = True
        while grows:
            # Callers come first, except in recursion, so that few rounds reach everything.
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
        """What roots reach, each after all of its callers where calls make no cycle."""
        order: list[str] = []
        seen: set[str] = set()
        stack = [(ref, False) for ref in self._roots]
        while stack:
            ref, is_done = stack.pop()
            if is_done:
                order.append(ref)
            elif ref not in seen:
                seen.add(ref)
                stack.append((ref, True))
                stack += [(callee, False) for callee in self._callees.get(ref, ()) if callee not in seen]
        return order[::-1]


def _line_and_callee(call: tuple[int, str, Edge]) -> tuple[int, str]:
    return call[:2]
