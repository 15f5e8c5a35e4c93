"""Finds races among the nodes of a simulated graph, by the order from streams and events."""

from __future__ import annotations

from graphsafe.capture.device.races import Access, Work, access_of, races_in
from graphsafe.capture.device.sim.graphs import CUDAGraph, Node
from graphsafe.capture.device.structures import tensors_in
from graphsafe.report.probes.order import Race


def races_of(graph: CUDAGraph) -> tuple[Race, ...]:
    """Return the races of a captured graph. Call it with torch functions and dispatch modes disabled."""
    placed = graph.placed
    work = [Work(one.node.op, one.node.frames, one.node.span, _accesses(one.node)) for one in placed]
    return races_in(work, lambda first, second: placed[first].is_before(placed[second]))


def _accesses(node: Node) -> tuple[Access, ...]:
    reads = [access_of(tensor, writes=False) for tensor in tensors_in([node.args, dict(node.kwargs)])]
    writes = [access_of(tensor, writes=True) for tensor in (*node.written, *node.outputs)]
    return tuple(access for access in (*reads, *writes) if access is not None)
