"""A small regression net trained with a hand-written AdamW and weight averaging."""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn


class Moments(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class AdamW:
    def __init__(self, params, lr=3e-3, betas=(0.9, 0.99), eps=1e-8, decay=0.01, max_norm=1.0):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.eps = lr, betas, eps
        self.decay, self.max_norm = decay, max_norm
        self.state: dict[int, Moments] = {}
        self.count = 0

    def _clip(self, grads):
        norm = torch.stack([torch.linalg.vector_norm(g) for g in grads]).square().sum().sqrt()
        scale = (self.max_norm / norm.clamp_min(1e-6)).clamp_max(1.0)
        return [g * scale for g in grads]

    def _moments(self, index: int, like: torch.Tensor) -> Moments:
        try:
            return self.state[index]
        except KeyError:
            made = Moments(torch.zeros_like(like), torch.zeros_like(like))
            self.state[index] = made
            return made

    @torch.no_grad()
    def step(self, grads):
        self.count += 1
        b1, b2 = self.betas
        debias1 = 1 - b1 ** self.count
        debias2 = 1 - b2 ** self.count
        for index, (p, g) in enumerate(zip(self.params, self._clip(grads))):
            m = self._moments(index, p)
            m.first.lerp_(g, 1 - b1)
            m.second.mul_(b2).addcmul_(g, g, value=1 - b2)
            denom = (m.second / debias2).sqrt_().add_(self.eps)
            p.mul_(1 - self.lr * self.decay)
            p.addcdiv_(m.first / debias1, denom, value=-self.lr)


class Average:
    """Exponential average of the weights, used for evaluation."""

    def __init__(self, params, decay=0.99):
        self.live = list(params)
        self.decay = decay
        self.shadow = [p.detach().clone() for p in self.live]

    @torch.no_grad()
    def update(self):
        d = self.decay
        self.shadow = [s * d + p * (1 - d) for s, p in zip(self.shadow, self.live)]

    def drift(self) -> torch.Tensor:
        return sum((s - p).square().mean() for s, p in zip(self.shadow, self.live))


class Fit:
    def __init__(self, net: nn.Module):
        self.net = net
        self.opt = AdamW(net.parameters())
        self.average = Average(net.parameters())

    def __call__(self, x: torch.Tensor, y: torch.Tensor):
        loss = nn.functional.smooth_l1_loss(self.net(x), y)
        grads = torch.autograd.grad(loss, self.opt.params)
        self.opt.step(grads)
        self.average.update()
        return loss.detach(), self.average.drift().detach()


def build(device):
    net = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 1)).to(device)
    x = torch.randn(64, 8, device=device)
    return Fit(net), (x, x.sum(1, keepdim=True).sin())
