"""A vocoder is trained with weight norm. For export the norm is folded in, after which only the plain weight is
tuned."""

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import graphsafe


def build(device):
    conv = parametrizations.weight_norm(nn.Conv1d(2, 4, 3, padding=1)).to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, 2, 24))
        if k >= 100 and parametrize.is_parametrized(conv):
            parametrize.remove_parametrizations(conv, "weight")
            conv.requires_grad_(False)
        if not parametrize.is_parametrized(conv):
            conv.weight.mul_(0.99)
        else:
            conv.parametrizations.weight.original0.mul_(1.005)

    return graphsafe.Step(conv, (torch.randn(1, 2, 24, device=device),), refresh=refresh)
