"""Merging an adapter writes the base in place and closes a gate on the device; the flag is for the log."""
import torch
from torch import nn

import graphsafe


class LoraLinear(nn.Module):
    def __init__(self, size, rank, alpha):
        super().__init__()
        self.base = nn.Linear(size, size)
        self.down = nn.Parameter(torch.randn(rank, size) * 0.2)
        self.up = nn.Parameter(torch.randn(size, rank) * 0.2)
        self.register_buffer("gate", torch.ones(1))
        self.scaling = alpha / rank
        self.merged = False

    @torch.no_grad()
    def set_merged(self, wanted):
        if wanted == self.merged:
            return
        sign = 1.0 if wanted else -1.0
        self.base.weight.addmm_(self.up, self.down, alpha=sign * self.scaling)
        self.gate.fill_(0.0 if wanted else 1.0)
        self.merged = wanted

    def forward(self, x):
        return self.base(x) + (x @ self.down.T) @ self.up.T * (self.gate * self.scaling)


class Server:
    def __init__(self, device):
        self.layers = nn.ModuleList(LoraLinear(32, 4, 8.0) for _ in range(2)).to(device).requires_grad_(False)
        self.log = []

    def observe(self, k):
        for i, layer in enumerate(self.layers):
            layer.set_merged(k % 50 > 44 and (k // 50 + i) % 2 == 0)
        self.log.append("".join("ML"[not layer.merged] for layer in self.layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def build(device):
    server = Server(device)

    def refresh(args, kwargs, k):
        server.observe(k)
        args[0].copy_(torch.randn(4, 32))

    return graphsafe.Step(server.forward, (torch.randn(4, 32, device=device),), refresh=refresh)
