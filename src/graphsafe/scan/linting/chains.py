"""The chain of calls that a finding shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from graphsafe.scan.domain.record import Edge
from graphsafe.scan.linting.call_graph import CallGraph
from graphsafe.scan.linting.regions import Regions


class Chains:
    """Finds the shortest chain of calls from a root to a line, for captured lines from a root in the same graph."""

    def __init__(self, calls: CallGraph, regions: Regions) -> None:
        self._regions = regions
        self._from_roots = calls.chains()

    @cached_property
    def _from_captures(self) -> Mapping[str, Sequence[Edge]]:
        return self._regions.captured_chains()

    def to(self, ref: str, line: int) -> Sequence[Edge]:
        """Return the chain of calls to a line of a function. The chain is empty if the function itself is a root."""
        chain = self._from_roots.get(ref, ())
        caller, at = (chain[0].caller, chain[0].line) if chain else (ref, line)
        if self._regions.of(ref, line) != "captured" or self._regions.begins_graph(caller, at):
            return chain
        # The nearest root is host code around the graphs. It does not show why a graph contains the line.
        return self._from_captures.get(ref, chain)
