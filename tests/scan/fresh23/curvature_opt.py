"""A small regression net trained with a clipped second-order optimizer (diagonal Hessian estimate)."""
import random

import torch
import torch.nn as nn


class DiagHess:
    def __init__(self, params, lr=2e-3, betas=(0.96, 0.99), rho=0.04, refresh=0.35, seed=17):
        self.params = [p for p in params if p.requires_grad]
        self.lr = lr
        self.b1, self.b2 = betas
        self.rho = rho
        self.refresh = refresh
        self.coin = random.Random(seed)
        self.k = 0
        self.mom = [torch.zeros_like(p) for p in self.params]
        self.hess = [torch.full_like(p, 1e-3) for p in self.params]

    @torch.no_grad()
    def _estimate(self, grads, batch):
        for h, g in zip(self.hess, grads):
            h.mul_(self.b2).addcmul_(g, g, value=(1.0 - self.b2) * batch)

    @torch.no_grad()
    def apply(self, grads, batch):
        if self.coin.random() < self.refresh:
            self._estimate(grads, batch)
        self.k += 1
        correction = 1.0 - self.b1 ** self.k
        for i, (p, g) in enumerate(zip(self.params, grads)):
            self.mom[i] = self.b1 * self.mom[i] + (1.0 - self.b1) * g
            ratio = (self.mom[i] / correction) / (self.rho * self.hess[i] + 1e-12)
            p.add_(ratio.clamp_(-1.0, 1.0), alpha=-self.lr)


class Fitting:
    def __init__(self, device):
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1)).to(device)
        self.opt = DiagHess(self.net.parameters())

    def step(self, x, y):
        loss = nn.functional.smooth_l1_loss(self.net(x).squeeze(-1), y)
        grads = torch.autograd.grad(loss, self.opt.params)
        self.opt.apply(grads, x.shape[0])
        return loss.detach()


def build(device):
    fitting = Fitting(device)
    x = torch.randn(24, 10, device=device)
    y = x[:, :3].sin().sum(1)
    return fitting.step, (x, y)
