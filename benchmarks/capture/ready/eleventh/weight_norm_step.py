"""A weight-normed vocoder layer works its weight out in each step; its direction is refilled in place."""
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import graphsafe


def build(device):
    net = weight_norm(nn.Conv1d(4, 8, 3, padding=1)).to(device).requires_grad_(False)
    raw = net.parametrizations.weight

    def step(x):
        return net(x)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 4, 20))
        raw.original1.add_(torch.randn(raw.original1.shape).to(device) * 0.05)
        raw.original0.mul_(0.999)

    return graphsafe.Step(step, (torch.randn(2, 4, 20, device=device),), refresh=refresh)
