"""Writes adapters from pinned memory into the slots of a running model."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
from layers import RANK, SLOTS, WIDTH, Model


@dataclass(frozen=True)
class Adapter:
    alpha: float
    downs: torch.Tensor
    ups: torch.Tensor


def store(names: list[str], depth: int) -> dict[str, Adapter]:
    """All adapters, in pinned memory that is never written again."""
    adapters = {}
    for name in names:
        downs = torch.randn(depth, RANK, WIDTH).pin_memory()
        ups = torch.randn(depth, WIDTH, RANK).pin_memory()
        adapters[name] = Adapter(4.0 + len(name) % 5, downs, ups)
    return adapters


class AdapterManager:
    def __init__(self, model: Model, adapters: dict[str, Adapter]):
        self.model = model
        self.adapters = adapters
        self.slots: OrderedDict[str, int] = OrderedDict()

    def slot_of(self, name: str) -> int:
        if name not in self.slots:
            slot = len(self.slots) if len(self.slots) < SLOTS else self.slots.popitem(last=False)[1]
            self.slots[name] = slot
            self.write(slot, self.adapters[name])
        self.slots.move_to_end(name)
        return self.slots[name]

    def write(self, slot: int, adapter: Adapter) -> None:
        for number, layer in enumerate(self.model.layers):
            layer.down[slot].copy_(adapter.downs[number], non_blocking=True)
            layer.up[slot].copy_(adapter.ups[number], non_blocking=True)
            layer.scaling[slot].fill_(adapter.alpha / RANK)
