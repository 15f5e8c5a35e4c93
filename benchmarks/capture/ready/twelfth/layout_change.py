"""A vision service moves its convolutions to channels-last when the profiler says so, and goes on getting new
weights."""

import torch
from torch import nn

import graphsafe


def build(device):
    net = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1)).to(device)
    net.eval().requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.rand(2, 4, 8, 8))
        for p in net.parameters():  # the trainer's stream of weights
            p.mul_(0.97).add_(torch.randn(p.shape).to(device), alpha=0.02)

    def change_layout():
        for p in net.parameters():
            if p.ndim == 4:
                p.data = p.data.contiguous(memory_format=torch.channels_last)

    return graphsafe.Step(
        net, (torch.rand(2, 4, 8, 8, device=device),), refresh=refresh, events={"channels last": change_layout}
    )
