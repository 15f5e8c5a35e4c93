"""The decoder is tied to the encoder after a warm-up of its own."""
import torch
from torch import nn

import graphsafe


class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(12, 12, bias=False)
        self.dec = nn.Linear(12, 12, bias=False)

    def forward(self, x):
        return self.dec(torch.tanh(self.enc(x)))


def build(device):
    net = Auto().to(device).requires_grad_(False)

    def tie():
        net.dec.weight = net.enc.weight

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 12))
        net.enc.weight.mul_(0.999)

    return graphsafe.Step(net.forward, (torch.randn(4, 12, device=device),), refresh=refresh, events={"tie": tie})
