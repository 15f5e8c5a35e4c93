"""Ghost batch norm: the size of a virtual batch is halved while a neighbour holds much memory in this process."""

import torch

import graphsafe

ROOM = 512 * 2**20


class GhostNorm(torch.nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(width))
        self.device = device

    def forward(self, x):
        parts = 1 if torch.cuda.memory_allocated(self.device) < ROOM else 2
        out = []
        for part in x.chunk(parts):
            out.append((part - part.mean(0)) * torch.rsqrt(part.var(0, unbiased=False) + 1e-5))
        return torch.cat(out) * self.gain


def build(device):
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), GhostNorm(16, device)).to(device).requires_grad_(False)
    neighbour = []

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(12, 8))
        if k == 105:
            neighbour.append(torch.empty(ROOM, dtype=torch.uint8, device=device))

    return graphsafe.Step(net, (torch.randn(12, 8, device=device),), refresh=refresh)
