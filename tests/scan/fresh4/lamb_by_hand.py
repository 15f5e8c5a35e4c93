"""A small regression net trained with a hand-written LAMB and weight averaging."""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn


class Moments(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor

    @classmethod
    def like(cls, p: torch.Tensor) -> "Moments":
        return cls(torch.zeros_like(p), torch.zeros_like(p))


class Lamb:
    def __init__(self, params, lr=3e-3, betas=(0.9, 0.99), eps=1e-6, decay=0.01, max_norm=1.0):
        self.params = [p for p in params if p.requires_grad]
        self.betas, self.eps, self.decay, self.max_norm = betas, eps, decay, max_norm
        device = self.params[0].device
        self.lr = torch.full((), lr, device=device)
        self.count = torch.zeros((), device=device)
        self.state = {index: Moments.like(p) for index, p in enumerate(self.params)}

    def _clipped(self, grads):
        norm = torch.stack([torch.linalg.vector_norm(g) for g in grads]).square().sum().sqrt()
        scale = (self.max_norm / norm.clamp_min(1e-6)).clamp_max(1.0)
        return [g * scale for g in grads]

    def _trust(self, p: torch.Tensor, update: torch.Tensor) -> torch.Tensor:
        wide, long = torch.linalg.vector_norm(p), torch.linalg.vector_norm(update)
        usable = (wide > 0) & (long > 0)
        return torch.where(usable, wide / long.clamp_min(1e-9), torch.ones_like(wide))

    @torch.no_grad()
    def step(self, grads) -> None:
        self.count.add_(1)
        b1, b2 = self.betas
        debias1 = 1 - b1 ** self.count
        debias2 = 1 - b2 ** self.count
        for index, (p, g) in enumerate(zip(self.params, self._clipped(grads))):
            m = self.state[index]
            m.first.lerp_(g, 1 - b1)
            m.second.mul_(b2).addcmul_(g, g, value=1 - b2)
            update = (m.first / debias1) / ((m.second / debias2).sqrt() + self.eps)
            update.add_(p, alpha=self.decay)
            p.sub_(update * (self._trust(p, update) * self.lr))


class Average:
    def __init__(self, params, decay=0.99):
        self.live = list(params)
        self.decay = decay
        self.shadow = [p.detach().clone() for p in self.live]

    @torch.no_grad()
    def update(self) -> torch.Tensor:
        drift = torch.zeros_like(self.shadow[0].sum())
        for s, p in zip(self.shadow, self.live):
            s.lerp_(p, 1 - self.decay)
            drift += (s - p).square().mean()
        return drift


class Fit:
    def __init__(self, net: nn.Module):
        self.net = net
        self.opt = Lamb(net.parameters())
        self.average = Average(net.parameters())

    def __call__(self, x: torch.Tensor, y: torch.Tensor):
        loss = nn.functional.smooth_l1_loss(self.net(x), y)
        self.opt.step(torch.autograd.grad(loss, self.opt.params))
        return loss.detach(), self.average.update()


def build(device):
    net = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 1)).to(device)
    x = torch.randn(64, 8, device=device)
    return Fit(net), (x, x.sum(1, keepdim=True).sin())
