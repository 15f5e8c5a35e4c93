"""Serving one base layer with adapters swapped in between replays."""
from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Adapter:
    down: torch.Tensor
    up: torch.Tensor
    scale: float

    @property
    def rank(self) -> int:
        return self.down.shape[1]


class LoraSlot(nn.Module):
    """The adapter that the graphs read; its storage never moves."""

    def __init__(self, dim: int, max_rank: int):
        super().__init__()
        self.register_buffer("down", torch.zeros(dim, max_rank))
        self.register_buffer("up", torch.zeros(max_rank, dim))
        self.register_buffer("scale", torch.zeros(()))

    def load(self, adapter: Adapter) -> None:
        r = adapter.rank
        self.down.zero_()
        self.up.zero_()
        self.down[:, :r].copy_(adapter.down)
        self.up[:r].copy_(adapter.up)
        self.scale.fill_(adapter.scale)

    def unload(self) -> None:
        self.scale.zero_()

    def forward(self, x):
        return (x @ self.down @ self.up) * self.scale


class Served(nn.Module):
    def __init__(self, dim: int, max_rank: int = 16):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.slot = LoraSlot(dim, max_rank)

    def forward(self, x):
        return F.gelu(self.base(x) + self.slot(x))


class AdapterServer:
    def __init__(self, model: Served, dim: int, device, sizes=(1, 4, 8)):
        self.model = model
        self.sizes = sizes
        self.bank: dict[str, Adapter] = {}
        self.inputs = {n: torch.zeros(n, dim, device=device) for n in sizes}
        self.outputs: dict[int, torch.Tensor] = {}
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.active: str | None = None

    def register(self, name: str, adapter: Adapter) -> None:
        device = self.model.base.weight.device
        self.bank[name] = Adapter(adapter.down.to(device), adapter.up.to(device), adapter.scale)

    @torch.no_grad()
    def capture(self) -> None:
        pool = torch.cuda.graph_pool_handle()
        for n in sorted(self.sizes, reverse=True):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.model(self.inputs[n])
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                self.outputs[n] = self.model(self.inputs[n])
            self.graphs[n] = graph

    @contextlib.contextmanager
    def using(self, name: str | None):
        if name != self.active:
            if name is None:
                self.model.slot.unload()
            else:
                self.model.slot.load(self.bank[name])
            self.active = name
        yield self

    @torch.no_grad()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        n = next(s for s in self.sizes if s >= rows)
        static = self.inputs[n]
        static[:rows].copy_(x)
        self.graphs[n].replay()
        return self.outputs[n][:rows].clone()


def serve(device="cuda", dim: int = 32, rounds: int = 6):
    server = AdapterServer(Served(dim).to(device).eval(), dim, device)
    for i, name in enumerate(("chat", "code", "math")):
        rank = 4 * (i + 1)
        server.register(name, Adapter(torch.randn(dim, rank) * 0.02, torch.randn(rank, dim) * 0.02, 0.5 + i))
    server.capture()
    answers = []
    plan = ["chat", "code", None, "math"]
    for k in range(rounds):
        batch = torch.randn(1 + k % 8, dim, device=device)
        with server.using(plan[k % len(plan)]) as live:
            answers.append(live(batch))
    return torch.cat(answers)


if __name__ == "__main__":
    print(serve().mean())
