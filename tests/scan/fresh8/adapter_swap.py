"""Serves one base model with many low-rank adapters, one active at a time."""
from __future__ import annotations

from pathlib import Path
from typing import Mapping

import torch
from torch import nn


class Adapted(nn.Module):
    """A frozen linear layer plus the low-rank part of the active adapter."""

    def __init__(self, base: nn.Linear, rank: int):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(rank, base.in_features), requires_grad=False)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank), requires_grad=False)
        self.register_buffer("strength", torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = nn.functional.linear(x, self.down)
        return self.base(x) + self.strength * nn.functional.linear(low, self.up)

    def take(self, weights: Mapping[str, torch.Tensor], strength: float) -> None:
        self.down.data = weights["down"]
        self.up.data = weights["up"]
        self.strength.fill_(strength)


class Net(nn.Module):
    def __init__(self, width: int, depth: int, rank: int):
        super().__init__()
        self.layers = nn.ModuleList(Adapted(nn.Linear(width, width), rank) for _ in range(depth))

    def forward(self, x: torch.Tensor, mix: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.relu(layer(mix @ x))
        return x


class Shelf:
    """All adapters, resident on the device."""

    def __init__(self, device: torch.device):
        self.device = device
        self.entries: dict[str, tuple[list[dict[str, torch.Tensor]], float]] = {}

    def load(self, folder: Path) -> None:
        for path in sorted(folder.glob("*.pt")):
            blob = torch.load(path, map_location=self.device)
            self.entries[path.stem] = (blob["layers"], blob["alpha"] / blob["rank"])

    def add_random(self, name: str, net: Net, scale: float) -> None:
        layers = [{k: torch.randn(getattr(m, k).shape, device=self.device) for k in ("down", "up")} for m in net.layers]
        self.entries[name] = (layers, scale)


class Host:
    def __init__(self, net: Net, shelf: Shelf, width: int, sizes: tuple[int, ...], device: torch.device):
        self.net = net.to(device).eval()
        self.shelf = shelf
        self.device = device
        self.active: str | None = None
        self.x = torch.zeros(max(sizes), width, device=device)
        self.tapes: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
        for rows in sizes:
            self.tapes[rows] = self._tape(rows)

    @torch.no_grad()
    def _tape(self, rows: int):
        mix = torch.ones(rows, rows, device=self.device).tril()
        mix /= mix.sum(1, keepdim=True)
        view = self.x[:rows]
        lane = torch.cuda.Stream(self.device)
        lane.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(lane):
            for _ in range(2):
                self.net(view, mix)
        torch.cuda.current_stream(self.device).wait_stream(lane)
        tape = torch.cuda.CUDAGraph()
        with torch.cuda.graph(tape, stream=lane):
            out = self.net(view, mix)
        return tape, out

    def switch(self, name: str) -> None:
        if name == self.active:
            return
        layers, strength = self.shelf.entries[name]
        for layer, weights in zip(self.net.layers, layers):
            layer.take(weights, strength)
        self.active = name

    @torch.no_grad()
    def reply(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        self.switch(name)
        n = rows.shape[0]
        tape, out = self.tapes[n]
        self.x[:n].copy_(rows)
        tape.replay()
        torch.cuda.current_stream(self.device).synchronize()
        return out.clone()


if __name__ == "__main__":
    where = torch.device("cuda", 0)
    torch.cuda.set_device(where)
    net, shelf = Net(64, 3, 8), Shelf(where)
    for i, name in enumerate("abc"):
        shelf.add_random(name, net, 0.5 + i)
    host = Host(net, shelf, 64, (4, 8), where)
    for i in range(30):
        host.reply("abc"[i % 3], torch.randn(8, 64, device=where))
