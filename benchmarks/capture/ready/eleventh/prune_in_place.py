"""Magnitude pruning whose mask is written in place."""
import torch
from torch import nn
from torch.nn.utils import prune

import graphsafe


class Pruned(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        prune.identity(self.up, "weight")

    def sparsify(self, share):
        w = self.up.weight_orig.abs()
        cut = w.flatten().sort().values[int(share * w.numel())]
        self.up.weight_mask.copy_((w >= cut).float())

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def build(device):
    net = Pruned().to(device).eval().requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        if k in (20, 90, 140):
            net.sparsify(k / 200)

    return graphsafe.Step(net.forward, (torch.randn(8, 16, device=device),), refresh=refresh)
