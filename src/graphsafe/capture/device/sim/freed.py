"""Poisons memory that a graph still uses but nothing else holds: a GPU's allocator would give it away.

On the simulated device a graph keeps its storages alive, so the other holders of a storage are counted. Memory that was
allocated in a capture belongs to the graph's pool and is never given away while the graph lives.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from graphsafe.capture.device.sim.graphs import CUDAGraph
from graphsafe.capture.device.sim.storage_objects import holders
from graphsafe.capture.device.sim.tags import tag_of

_POISON = 0xFF
"A byte that makes NaN in every floating dtype."
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def poison_freed(graphs: Iterable[CUDAGraph]) -> None:
    """Poison the memory that only these graphs hold. Call it with torch functions disabled."""
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
        held = holders(place)  # each tensor of a graph is one holder
        if place not in inside and held is not None and held <= len(aliases[place]):
            torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).fill_(_POISON)
