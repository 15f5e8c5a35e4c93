"""A weight store hands out its tensors as new Parameters after each update; the memory stays the store's."""

import torch
from torch import nn

import graphsafe


def build(device):
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to(device).eval()
    store = {name: p.detach() for name, p in net.named_parameters()}

    def adopt():
        for name, tensor in store.items():
            layer, leaf = name.split(".")
            setattr(net[int(layer)], leaf, nn.Parameter(tensor, requires_grad=False))

    adopt()

    def refresh(args, kwargs, k):
        for tensor in store.values():
            tensor.mul_(0.95).add_(torch.randn(tensor.shape).to(device), alpha=0.05)
        adopt()
        args[0].copy_(torch.randn(5, 8))

    return graphsafe.Step(net, (torch.randn(5, 8, device=device),), refresh=refresh)
