"""Multi-tenant LoRA serving: every adapter owns a slot, rows pick theirs by index."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn


@dataclass
class AdapterSpec:
    name: str
    path: Path
    alpha: float = 16.0
    rank: int = 8


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, slots: int, rank: int):
        super().__init__()
        device = base.weight.device
        self.base = base
        self.register_buffer("down", torch.zeros(slots, base.in_features, rank, device=device))
        self.register_buffer("up", torch.zeros(slots, rank, base.out_features, device=device))
        self.register_buffer("scale", torch.zeros(slots, 1, device=device))
        self.rows: torch.Tensor | None = None

    def forward(self, x):
        low = torch.bmm(x.unsqueeze(1), self.down[self.rows])
        return self.base(x) + self.scale[self.rows] * torch.bmm(low, self.up[self.rows]).squeeze(1)


def wrap(model: nn.Module, slots: int, rank: int, rows: torch.Tensor) -> list[LoRALinear]:
    wrapped = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                layer = LoRALinear(child, slots, rank)
                layer.rows = rows
                setattr(parent, name, layer)
                wrapped.append(layer)
    return wrapped


@dataclass
class AdapterBank:
    layers: list[LoRALinear]
    device: torch.device
    slots: int
    index: dict[str, int] = field(default_factory=dict)

    def load(self, spec: AdapterSpec) -> int:
        """Puts the adapter into its slot, or into the oldest one when all are taken."""
        slot = self.index.pop(spec.name, None)
        if slot is None and len(self.index) < self.slots:
            slot = len(self.index)
        elif slot is None:
            slot = self.index.pop(next(iter(self.index)))
        tensors = torch.load(spec.path, map_location=self.device, weights_only=True)
        for i, layer in enumerate(self.layers):
            layer.down[slot].copy_(tensors[f"{i}.down"])
            layer.up[slot].copy_(tensors[f"{i}.up"])
            layer.scale[slot].fill_(spec.alpha / spec.rank)
        self.index[spec.name] = slot
        return slot


class Engine:
    def __init__(self, model: nn.Module, batch: int, width: int, slots: int = 16, device="cuda"):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval().requires_grad_(False)
        self.rows = torch.zeros(batch, dtype=torch.long, device=self.device)
        self.bank = AdapterBank(wrap(self.model, slots, 8, self.rows), self.device, slots)
        self.x = torch.zeros(batch, width, device=self.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.y: torch.Tensor | None = None

    @torch.no_grad()
    def start(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.model(self.x)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.model(self.x)

    @torch.no_grad()
    def infer(self, names: list[str], x: torch.Tensor) -> torch.Tensor:
        rows = torch.tensor([self.bank.index[n] for n in names])
        self.rows.copy_(rows.pin_memory(), non_blocking=True)
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()

    @torch.no_grad()
    def best_row(self, names: list[str], x: torch.Tensor) -> torch.Tensor:
        return self.infer(names, x).norm(dim=-1).argmax()
