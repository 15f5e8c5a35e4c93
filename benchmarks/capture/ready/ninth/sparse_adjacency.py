"""Message passing over a road network; closed roads change the sparse adjacency every few steps, in place."""
import torch
from torch import nn

import graphsafe


def network(nodes, roads, device, seed):
    draw = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, nodes, (2, roads), generator=draw)
    weights = torch.rand(roads, generator=draw)
    return torch.sparse_coo_tensor(pairs, weights, (nodes, nodes)).coalesce().to(device)


class Traffic(nn.Module):
    def __init__(self, adjacency, width):
        super().__init__()
        self.register_buffer("adjacency", adjacency)
        self.own, self.near = nn.Linear(width, width), nn.Linear(width, width)

    def close_roads(self, k):
        seen = self.adjacency
        seen.copy_(network(seen.shape[0], 60 - k // 9 % 4, seen.device, k))  # <-B

    def forward(self, x):
        return torch.relu(self.own(x) + torch.sparse.mm(self.adjacency, self.near(x)))  # <-A


def build(device, nodes=20, width=8):
    model = Traffic(network(nodes, 60, device, 0), width).to(device).eval().requires_grad_(False)
    x = torch.randn(nodes, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(nodes, width))
        if k % 9 == 8:
            model.close_roads(k)

    return graphsafe.Step(model, (x,), refresh=refresh)
