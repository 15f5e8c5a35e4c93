"""Weights are parametrized; an evaluation window holds them with parametrize.cached() while a follower moves the originals."""
import torch
from torch import nn
from torch.nn.utils import parametrize

import graphsafe


class Symmetric(nn.Module):
    def forward(self, w):
        return (w + w.T) / 2


def build(device):
    net = nn.Linear(12, 12).to(device).requires_grad_(False)
    parametrize.register_parametrization(net, "weight", Symmetric())
    window = []

    def step(x):
        return net(x)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 12))
        if k == 120:
            window.append(parametrize.cached())
            window[0].__enter__()
        elif k == 150:
            window.pop().__exit__(None, None, None)
        net.parametrizations.weight.original.mul_(0.98)

    return graphsafe.Step(step, (torch.randn(4, 12, device=device),), refresh=refresh)
