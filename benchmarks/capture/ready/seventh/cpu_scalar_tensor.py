"""Debiased running mean; the number of updates is a 0-d tensor on the host, as in old optimizers."""
import torch
from torch import nn

import graphsafe


class Debiased(nn.Module):
    def __init__(self, dim=16, decay=0.9):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.power = torch.ones(())  # deliberately not a buffer: stays on the host
        self.decay = decay

    def forward(self, x):
        self.power.mul_(self.decay)
        self.mean.mul_(self.decay).add_(x.mean(0), alpha=1 - self.decay)
        return x - self.mean / (1 - self.power)  # LINE: a host scalar becomes a kernel's argument


def build(device):
    torch.manual_seed(12)
    norm = Debiased().to(device)
    x = torch.randn(8, 16, device=device)
    return graphsafe.Step(norm, (x,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(8, 16)))
