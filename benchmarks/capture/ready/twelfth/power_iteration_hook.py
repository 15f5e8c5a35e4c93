"""A discriminator with the older, hook-based spectral norm, which replaces layer.weight in each forward pass."""

import torch
from torch import nn
from torch.nn.utils import spectral_norm

import graphsafe


def build(device):
    net = nn.Sequential(spectral_norm(nn.Linear(12, 24)), nn.LeakyReLU(0.2), spectral_norm(nn.Linear(24, 1))).to(device)
    net.train()
    params = list(net.parameters())

    def step(real, fake):
        loss = nn.functional.relu(1 - net(real)).mean() + nn.functional.relu(1 + net(fake)).mean()
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            torch._foreach_add_(params, grads, alpha=-0.02)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 12) + 0.5)
        args[1].copy_(torch.randn(8, 12) - 0.5)

    args = (torch.randn(8, 12, device=device), torch.randn(8, 12, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
