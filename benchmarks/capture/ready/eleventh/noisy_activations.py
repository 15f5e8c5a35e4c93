"""RReLU, alpha dropout and feature dropout, all in training mode."""
import torch
from torch import nn

import graphsafe


def build(device):
    net = nn.Sequential(nn.Conv1d(4, 8, 3), nn.RReLU(), nn.Dropout1d(0.2), nn.Flatten(), nn.Linear(112, 8), nn.AlphaDropout(0.1))
    net = net.to(device).requires_grad_(False).train()

    def step(x):
        return net(x)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 4, 16))

    return graphsafe.Step(step, (torch.randn(4, 4, 16, device=device),), refresh=refresh)
