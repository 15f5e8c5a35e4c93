"""Debiased running gradient by torch.func; the power is a device scalar."""
import torch
from torch import nn

import graphsafe


class Meta:
    def __init__(self, device, decay=0.9):
        torch.manual_seed(12)
        self.net = nn.Linear(16, 1).to(device)
        self.params = {k: v.detach() for k, v in self.net.named_parameters()}
        self.mean = {k: torch.zeros_like(v) for k, v in self.params.items()}
        self.power = torch.ones((), device=device)
        self.decay = decay

    def loss(self, params, x):
        return torch.func.functional_call(self.net, params, (x,)).square().mean()

    def step(self, x):
        self.power.mul_(self.decay)
        grads = torch.func.vmap(torch.func.grad(self.loss), in_dims=(None, 0))(self.params, x)
        for name, g in grads.items():
            self.mean[name].lerp_(g.mean(0), 1 - self.decay)
            self.params[name].sub_(0.05 * self.mean[name] / (1 - self.power))
        return self.loss(self.params, x)


def build(device):
    meta = Meta(device)
    x = torch.randn(8, 4, 16, device=device)
    return graphsafe.Step(meta.step, (x,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(8, 4, 16)))
