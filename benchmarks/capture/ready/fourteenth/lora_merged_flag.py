"""An adapter can be merged into its base: the branch is left out from then on, because `merged` is true."""
import torch
from torch import nn

import graphsafe


class LoraLinear(nn.Module):
    def __init__(self, size, rank, alpha):
        super().__init__()
        self.base = nn.Linear(size, size)
        self.down = nn.Parameter(torch.randn(rank, size) * 0.2)
        self.up = nn.Parameter(torch.randn(size, rank) * 0.2)
        self.scaling = alpha / rank
        self.merged = False

    @torch.no_grad()
    def merge(self):
        if not self.merged:
            self.base.weight.addmm_(self.up, self.down, alpha=self.scaling)
            self.merged = True

    @torch.no_grad()
    def unmerge(self):
        if self.merged:
            self.base.weight.addmm_(self.up, self.down, alpha=-self.scaling)
            self.merged = False

    def forward(self, x):
        y = self.base(x)
        if self.merged:
            return y
        return y + (x @ self.down.T) @ self.up.T * self.scaling


class Server:
    def __init__(self, device):
        self.layers = nn.ModuleList(LoraLinear(32, 4, 8.0) for _ in range(2)).to(device).requires_grad_(False)
        self.hits = 0

    def observe(self, k):
        """Merge an adapter that has been alone on the server for a while."""
        self.hits = self.hits + 1 if k % 50 else 0
        wanted = self.hits > 45
        for layer in self.layers:
            (layer.merge if wanted else layer.unmerge)()

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
