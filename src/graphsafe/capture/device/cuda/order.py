"""Finds races among the nodes of a CUDA graph. The graph's edges give the order; a watched capture gives the memory of
each node.

The driver shows the arguments of a kernel, but not which of them the kernel writes. The schemas of PyTorch's operators
do show this, so the step is captured again under a dispatch mode. Kernels that no operator launches are not checked.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import torch

from graphsafe.capture.device.cuda.nodes import count_in_capture, graph_edges
from graphsafe.capture.device.cuda.runtime import node_counts
from graphsafe.capture.device.modes import OperationMode
from graphsafe.capture.device.races import Access, Work, access_of, races_in
from graphsafe.capture.device.structures import by_schema, is_written, reads_values, tensors_in
from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.probes.order import Race


def is_chain(raw_graph: int) -> bool:
    """Return whether the nodes of a graph run one after another, so that no two of them can race. Raises
    NotComparable."""
    return forms_chain(sum(node_counts(raw_graph).values()), set(graph_edges(raw_graph)))


def forms_chain(nodes: int, edges: Set[tuple[int, int]]) -> bool:
    """Return whether the edges form one path through all nodes. Two nodes without an edge between them form no path."""
    starts, ends = {one for one, _ in edges}, {other for _, other in edges}
    return len(edges) == max(nodes - 1, 0) == len(starts) == len(ends)


class MemoryTouched(OperationMode):  # type: ignore[no-untyped-call]
    """Notes the memory that each operation uses, and the nodes that the operation adds to the capture under way on
    `stream`."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._stream = stream
        self.work: list[Work] = []
        self.nodes: list[range] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = count_in_capture(self._stream)
        result = func(*args, **(kwargs or {}))
        nodes = range(first, count_in_capture(self._stream))
        if nodes and isinstance(func, torch._ops.OpOverload):
            self.work.append(Work(func._schema.name, *user_frames(), _accesses(func, args, kwargs or {}, result)))
            self.nodes.append(nodes)
        return result


def races_of(raw_graph: int, touched: MemoryTouched) -> tuple[Race, ...]:
    """Return the races in a graph that was captured under `touched`. Raises NotComparable."""
    reached = _reached(graph_edges(raw_graph))
    nodes = touched.nodes

    def ordered(first: int, second: int) -> bool:
        # It is not known which node of an operation uses the memory. So two operations count as ordered if one node of
        # the first is ordered with one node of the second. Besides its kernel, NCCL adds event nodes for which nothing
        # in the graph waits (torch 2.11, NCCL 2.28).
        return any(later in reached.get(one, ()) for one in nodes[first] for later in nodes[second])

    def unordered(ones: Sequence[int], others: Sequence[int]) -> tuple[int, int] | None:
        pairs = ((min(one, other), max(one, other)) for one in ones for other in others if one != other)
        return next((pair for pair in pairs if not ordered(*pair)), None)

    return races_in(touched.work, unordered)


def _reached(edges: Sequence[tuple[int, int]]) -> dict[int, set[int]]:
    """Return, for each node, all nodes that follow it on some path. A capture adds a node only after the nodes for
    which this node waits."""
    following: dict[int, list[int]] = {}
    for one, other in edges:
        following.setdefault(one, []).append(other)
    reached: dict[int, set[int]] = {}
    for node in sorted(following, reverse=True):
        found = reached.setdefault(node, set())
        for other in following[node]:
            found.add(other)
            found |= reached.get(other, set())
    return reached


def _accesses(func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> tuple[Access, ...]:
    given = [(value, is_written(argument)) for argument, value in by_schema(func, args, kwargs)]
    given = [(value, writes) for value, writes in given if writes or reads_values(func)]
    found = [
        access_of(tensor, writes)
        for value, writes in [*given, (result, True)]
        for tensor in tensors_in(value)
        if tensor.is_cuda
    ]
    return tuple(access for access in found if access is not None)
