"""Sophia written by hand: a clipped second-order update whose curvature is estimated now and then."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Sophia:
    def __init__(self, params, lr=1e-3, betas=(0.96, 0.99), rho=0.04, every=5):
        self.params = list(params)
        self.lr, self.betas, self.rho, self.every = lr, betas, rho, every
        self.count = 0
        self.momentum = [torch.zeros_like(p) for p in self.params]
        self.hessian = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        self.count += 1
        fix = 1 - self.betas[0] ** self.count
        for place, p in enumerate(self.params):
            grad = p.grad
            self.momentum[place] = torch.lerp(grad, self.momentum[place], self.betas[0])
            if self.count % self.every == 1:
                self.hessian[place].mul_(self.betas[1]).addcmul_(grad, grad, value=1 - self.betas[1])
            ratio = self.momentum[place] / (self.rho * self.hessian[place] + 1e-12)
            p.sub_(ratio.clamp_(-1, 1), alpha=self.lr / fix)
        return self

    def norm(self):
        return math.sqrt(sum(float(p.grad.square().sum()) for p in self.params))


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
        if opt.norm() > 10.0:
            for p in opt.params:
                p.grad.mul_(0.1)
        opt.step()
        return loss.detach()

    return step, (torch.randn(32, 16, device=device), torch.randint(0, 4, (32,), device=device))
