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
from graphsafe.capture.device.sim.nodes import Node, OrderedNode, SimStream
from graphsafe.capture.device.sim.session import Graph
from graphsafe.capture.device.sim.tags import holders, tag_of
from graphsafe.capture.device.structures import reads_values, tensors_in
from graphsafe.report.probes.order import Race

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def poison_freed(graphs: Iterable[Graph]) -> None:
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


def races_of(graph: Graph) -> tuple[Race, ...]:
    """Return the races in a captured graph. Call it with torch functions and dispatch modes disabled."""
    placed = graph.placed
    work = [Work(one.node.op, one.node.frames, one.node.span, _accesses(one.node)) for one in placed]
    return races_in(work, functools.partial(_unordered, placed))


def _unordered(placed: Sequence[OrderedNode], ones: Sequence[int], others: Sequence[int]) -> tuple[int, int] | None:
    """See `races.Unordered`."""
    lanes: dict[SimStream, list[int]] = defaultdict(list)
    for number in others:
        lanes[placed[number].sim_stream].append(number)
    for number in ones:
        one = placed[number]
        for sim_stream, lane in lanes.items():
            if sim_stream == one.sim_stream:
                continue
            # A lane begins with the nodes that run before `one`, and ends with those that run after it.
            start = bisect_right(lane, one.seen.get(sim_stream, 0), key=lambda other: placed[other].number)
            for at in range(start, len(lane)):
                if one.is_before(placed[lane[at]]):
                    break
                first, second = sorted((number, lane[at]))
                if not _are_ordered_by_autograd(placed[first].node, placed[second].node):
                    return first, second
    return None


def _are_ordered_by_autograd(first: Node, second: Node) -> bool:
    """Return whether autograd makes a backward operation wait for an operation that it recorded.

    Autograd runs the backward of an operation on the stream of that operation. The simulated device runs the backward
    on the current stream.
    """
    return first.recorded and second.backward


def _accesses(node: Node) -> tuple[Access, ...]:
    read = tensors_in([node.args, dict(node.kwargs)]) if reads_values(node.func) else []
    reads = [access_of(tensor, writes=False) for tensor in read]
    writes = [access_of(tensor, writes=True) for tensor in (*node.written, *node.outputs)]
    return tuple(access for access in (*reads, *writes) if access is not None)
