"""A block is specialised by changing its class once statistics are in."""
import torch
from torch import nn

import graphsafe


class Calibrating(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(16, 16)
        self.register_buffer("peak", torch.zeros(()))

    def forward(self, x):
        y = self.lin(x)
        self.peak.copy_(torch.maximum(self.peak, y.abs().amax()))
        return y


class Clipped(Calibrating):
    def forward(self, x):
        y = self.lin(x)
        return torch.minimum(torch.maximum(y, -self.peak / 3), self.peak / 3)


def build(device):
    net = nn.Sequential(Calibrating(), nn.ReLU(), Calibrating()).to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        if k == 110:  # calibration ends
            for m in net:
                if isinstance(m, Calibrating):
                    m.__class__ = Clipped

    return graphsafe.Step(net.forward, (torch.randn(8, 16, device=device),), refresh=refresh)
