"""Multi-tenant LoRA serving: adapters are swapped in beside one captured forward."""
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
    def __init__(self, base: nn.Linear, rank: int):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.zeros(rank, base.in_features, device=base.weight.device))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, device=base.weight.device))
        self.scale = 1.0

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.down.t() @ self.up.t())


def wrap(model: nn.Module, rank: int) -> list[LoRALinear]:
    wrapped = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                layer = LoRALinear(child, rank)
                setattr(parent, name, layer)
                wrapped.append(layer)
    return wrapped


@dataclass
class AdapterBank:
    layers: list[LoRALinear]
    device: torch.device
    specs: dict[str, AdapterSpec] = field(default_factory=dict)
    loaded: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = field(default_factory=dict)
    active: str | None = None

    def register(self, spec: AdapterSpec) -> None:
        tensors = torch.load(spec.path, map_location=self.device, weights_only=True)
        self.specs[spec.name] = spec
        self.loaded[spec.name] = [
            (tensors[f"{i}.down"], tensors[f"{i}.up"]) for i in range(len(self.layers))
        ]

    def activate(self, name: str) -> None:
        if name == self.active:
            return
        spec = self.specs[name]
        for layer, (down, up) in zip(self.layers, self.loaded[name]):
            layer.down.data.copy_(down)
            layer.up.data = up
            layer.scale = spec.alpha / spec.rank
        self.active = name


class Engine:
    def __init__(self, model: nn.Module, batch: int, width: int, rank: int = 8, device="cuda"):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval().requires_grad_(False)
        self.bank = AdapterBank(wrap(self.model, rank), self.device)
        self.x = torch.zeros(batch, width, device=self.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.y: torch.Tensor | None = None

    @torch.no_grad()
    def start(self, first: AdapterSpec) -> None:
        self.bank.register(first)
        self.bank.activate(first.name)
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
    def infer(self, name: str, x: torch.Tensor) -> torch.Tensor:
        self.bank.activate(name)
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()

    @torch.no_grad()
    def best_row(self, name: str, x: torch.Tensor) -> int:
        return self.infer(name, x).norm(dim=-1).argmax().item()
