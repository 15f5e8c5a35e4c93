"""Loads adapters from a store on the host into the layers of a running model."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
from layers import RANK, WIDTH, Model


@dataclass
class Adapter:
    alpha: float
    downs: list[torch.Tensor]
    ups: list[torch.Tensor]


class AdapterStore:
    def __init__(self, depth: int):
        self.depth = depth

    def load(self, name: str) -> Adapter:
        source = torch.Generator().manual_seed(sum(map(ord, name)))
        downs = [torch.randn(RANK, WIDTH, generator=source) for _ in range(self.depth)]
        ups = [torch.randn(WIDTH, RANK, generator=source) for _ in range(self.depth)]
        return Adapter(4.0 + len(name) % 5, downs, ups)


class AdapterManager:
    def __init__(self, model: Model, store: AdapterStore, capacity: int = 2):
        self.model = model
        self.store = store
        self.capacity = capacity
        self.ready: OrderedDict[str, Adapter] = OrderedDict()
        self.active: str | None = None

    def fetch(self, name: str) -> Adapter:
        if name not in self.ready:
            self.ready[name] = self.store.load(name)
            if len(self.ready) > self.capacity:
                self.ready.popitem(last=False)
        self.ready.move_to_end(name)
        return self.ready[name]

    def activate(self, name: str) -> None:
        if name == self.active:
            return
        adapter = self.fetch(name)
        for layer, down, up in zip(self.model.layers, adapter.downs, adapter.ups, strict=True):
            layer.down.copy_(down)
            layer.up.copy_(up)
            layer.scaling = adapter.alpha / RANK
        self.active = name
