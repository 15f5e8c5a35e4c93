"""Checks the memory that simulated graphs use. Finds races among the nodes of a graph, from the order that streams and
events give. Poisons memory that only graphs still refer to.

Memory to which only graphs refer is poisoned because a GPU's allocator would reuse it. On the simulated device a graph
keeps its storages alive, so the other references to a storage are counted. Memory that was allocated during a capture
belongs to the graph's pool and is used for nothing else while the graph exists.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

import torch

from graphsafe.capture.device.bits import NAN_BYTE
from graphsafe.capture.device.races import Access, Work, access_of, races_in
from graphsafe.capture.device.sim.graphs import CUDAGraph
from graphsafe.capture.device.sim.nodes import Node, SimStream
from graphsafe.capture.device.sim.tags import holders, tag_of
from graphsafe.capture.device.structures import reads_values, tensors_in
from graphsafe.report.probes.order import Race

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def poison_freed(graphs: Iterable[CUDAGraph]) -> None:
    """Poison the memory to which only these graphs refer. Call it with torch functions disabled."""
    aliases: dict[int, set[int]] = {}
    found: dict[int, torch.Tensor] = {}
    inside: set[int] = set()
    for graph in graphs:
        for tensor in graph.tensors():
            if type(tensor) not in _PLAIN or tensor.layout != torch.strided:
                continue
            tag = tag_of(tensor)
            if tag is None:
                continue
            place = tensor.untyped_storage()._cdata
            aliases.setdefault(place, set()).add(id(tensor))
            found.setdefault(place, tensor)
            if tag.session is not None:
                inside.add(place)
    for place, tensor in found.items():
        held = holders(place)  # each tensor of a graph is one reference
        if place not in inside and held is not None and held <= len(aliases[place]):
            torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).fill_(NAN_BYTE)


def races_of(graph: CUDAGraph) -> tuple[Race, ...]:
    """Return the races in a captured graph. Call it with torch functions and dispatch modes disabled."""
    nodes = graph.nodes
    if len({node.sim_stream for node in nodes}) < 2:
        return ()
    work = [Work(node.op, node.frames, node.span, _accesses(node)) for node in nodes]
    return races_in(work, functools.partial(_unordered, nodes))


def _unordered(nodes: Sequence[Node], ones: Sequence[int], others: Sequence[int]) -> tuple[int, int] | None:
    """See `races.Unordered`."""
    lanes: dict[SimStream, list[int]] = defaultdict(list)
    for number in others:
        lanes[nodes[number].sim_stream].append(number)
    for number in ones:
        one = nodes[number]
        for sim_stream, lane in lanes.items():
            if sim_stream == one.sim_stream:
                continue
            # `lane` begins with the nodes that run before `one`, and ends with the nodes that run after `one`.
            start = bisect_right(lane, one.seen.get(sim_stream, 0), key=lambda other: nodes[other].number)
            for at in range(start, len(lane)):
                if one.is_before(nodes[lane[at]]):
                    break
                first, second = sorted((number, lane[at]))
                # Autograd makes the backward of an operation wait for the operation: it runs the backward on the stream
                # of the operation. The simulated device runs the backward on the current stream.
                if not (nodes[first].recorded and nodes[second].backward):
                    return first, second
    return None


def _accesses(node: Node) -> tuple[Access, ...]:
    read = tensors_in([node.args, dict(node.kwargs)]) if reads_values(node.func) else []
    reads = [access_of(tensor, writes=False) for tensor in read]
    writes = [access_of(tensor, writes=True) for tensor in (*node.written, *node.outputs)]
    return tuple(access for access in (*reads, *writes) if access is not None)
