"""A hub of low-rank adapters: tenants bring adapters at any time, and each row of a batch uses its own."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, BATCH = 32, 6


class AdapterPool(nn.Module):
    def __init__(self, room, rank):
        super().__init__()
        self.register_buffer("down", torch.zeros(room, rank, WIDTH))
        self.register_buffer("up", torch.zeros(room, WIDTH, rank))
        self.register_buffer("scale", torch.zeros(room))

    def forward(self, x, index):
        low = torch.einsum("brw,bw->br", self.down[index], x)
        return torch.einsum("bwr,br->bw", self.up[index], low) * self.scale[index].unsqueeze(1)

    def widen(self, rank):
        more = rank - self.down.shape[1]
        if more > 0:
            self.down = F.pad(self.down, (0, 0, 0, more))
            self.up = F.pad(self.up, (0, more))


class Layer(nn.Module):
    def __init__(self, room, rank):
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH)
        self.pool = AdapterPool(room, rank)

    def forward(self, x, index):
        return torch.relu(self.base(x) + self.pool(x, index))


class Hub:
    def __init__(self, layers, room=8, rank=4):
        self.layers = nn.ModuleList(Layer(room, rank) for _ in range(layers)).cuda().requires_grad_(False)
        self.slots: dict[str, int] = {}

    def register(self, tenant, adapters, alpha):
        slot = self.slots.setdefault(tenant, len(self.slots))
        for layer, (down, up) in zip(self.layers, adapters, strict=True):
            rank = down.shape[0]
            layer.pool.widen(rank)
            layer.pool.down[slot, :rank].copy_(down)
            layer.pool.up[slot, :, :rank].copy_(up)
            layer.pool.scale[slot] = alpha / rank


class HubRunner:
    def __init__(self, hub):
        self.hub = hub
        self.x = torch.zeros(BATCH, WIDTH, device="cuda")
        self.index = torch.zeros(BATCH, dtype=torch.long, device="cuda")
        self.capture()

    def forward(self):
        x = self.x
        for layer in self.hub.layers:
            x = layer(x, self.index)
        return x

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.forward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.forward()

    def __call__(self, x, tenants):
        self.x.copy_(x)
        rows = [self.hub.slots[tenant] for tenant in tenants]
        self.index.copy_(torch.tensor(rows))
        self.graph.replay()
        return self.y.clone()


def adapters(layers, rank=4):
    return [
        (torch.randn(rank, WIDTH, device="cuda") * 0.1, torch.randn(WIDTH, rank, device="cuda") * 0.1)
        for _ in range(layers)
    ]


@torch.no_grad()
def main():
    torch.manual_seed(21)
    hub = Hub(layers=2)
    hub.register("base", adapters(2), 0.0)
    runner = HubRunner(hub)
    answers = []
    for number in range(12):
        if number % 2 == 0:
            hub.register(f"tenant-{number}", adapters(2, rank=4 + number // 2), alpha=8.0)
        names = list(hub.slots)
        tenants = [names[(number + row) % len(names)] for row in range(BATCH)]
        answers.append(runner(torch.randn(BATCH, WIDTH, device="cuda"), tenants))
    torch.save(torch.stack(answers), "answers.pt")


if __name__ == "__main__":
    main()
