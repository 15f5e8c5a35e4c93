"""Sophia written by hand, with its count of steps on the device and all state updated in place."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Sophia:
    def __init__(self, params, lr=1e-3, betas=(0.96, 0.99), rho=0.04, every=5):
        self.params = list(params)
        self.lr, self.betas, self.rho, self.every = lr, betas, rho, every
        self.count = torch.zeros((), device=self.params[0].device)
        self.momentum = [torch.zeros_like(p) for p in self.params]
        self.hessian = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        self.count.add_(1)
        fix = 1 - self.betas[0] ** self.count
        fresh = torch.remainder(self.count, self.every) == 1
        for p, momentum, hessian in zip(self.params, self.momentum, self.hessian, strict=True):
            momentum.lerp_(p.grad, 1 - self.betas[0])
            curvature = torch.lerp(p.grad.square(), hessian, self.betas[1])
            hessian.copy_(torch.where(fresh, curvature, hessian))
            ratio = momentum / (self.rho * hessian + 1e-12)
            p.sub_(ratio.clamp_(-1, 1) * (self.lr / fix))

    def shorten(self, limit):
        total = torch.stack([p.grad.square().sum() for p in self.params]).sum().sqrt()
        factor = 1.0 - 0.9 * (total > limit)
        for p in self.params:
            p.grad.mul_(factor)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 4))

    def forward(self, x):
        return self.body(x)


def build(device):
    torch.manual_seed(3)
    net = Net().to(device)
    opt = Sophia(net.parameters())
    for p in opt.params:
        p.grad = torch.zeros_like(p)

    def step(x, y):
        for p in opt.params:
            p.grad.zero_()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.shorten(10.0)
        opt.step()
        return loss.detach()

    return step, (torch.randn(32, 16, device=device), torch.randint(0, 4, (32,), device=device))
