"""A voice filter with a learned leak, which is handed to leaky_relu as its slope."""

import torch
from torch import nn

import graphsafe


class VoiceFilter(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, 5, padding=2)
        self.out = nn.Conv1d(8, 1, 5, padding=2)
        self.leak = nn.Parameter(torch.tensor(0.1), requires_grad=False)

    def forward(self, x):
        return self.out(nn.functional.leaky_relu(self.conv(x), self.leak))


def build(device):
    net = VoiceFilter().to(device).eval().requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, 1, 64))
        net.leak.fill_(0.1 + 0.02 * (k % 6))

    return graphsafe.Step(net, (torch.randn(1, 1, 64, device=device),), refresh=refresh)
