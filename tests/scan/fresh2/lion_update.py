"""A hand-written Lion variant with warm-up and trust clipping, stepped inside a training step."""
import math

import torch
from torch import nn


class Schedule:
    def __init__(self, peak, warmup, total):
        self.peak, self.warmup, self.total = peak, warmup, total

    def at(self, step):
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        frac = (step - self.warmup) / max(1, self.total - self.warmup)
        return 0.5 * self.peak * (1 + math.cos(math.pi * min(1.0, frac)))


class Lion:
    def __init__(self, params, schedule, betas=(0.9, 0.99), decay=0.01, max_norm=1.0):
        self.params = [p for p in params if p.requires_grad]
        self.schedule = schedule
        self.betas = betas
        self.decay = decay
        self.max_norm = max_norm
        self.count = 0
        self.exp_avg = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            if p.grad is not None:
                p.grad.zero_()

    def _scale(self):
        total = torch.stack([p.grad.norm() for p in self.params]).norm()
        return min(1.0, self.max_norm / (total.item() + 1e-6))

    @torch.no_grad()
    def step(self):
        lr = self.schedule.at(self.count)
        self.count += 1
        scale = self._scale()
        b1, b2 = self.betas
        for p, m in zip(self.params, self.exp_avg):
            g = p.grad * scale
            direction = torch.sign(m * b1 + g * (1 - b1))
            p.mul_(1 - lr * self.decay)
            p.add_(direction, alpha=-lr)
            m.mul_(b2).add_(g, alpha=1 - b2)


class Regression:
    def __init__(self, net, optimizer):
        self.net = net
        self.optimizer = optimizer
        self.criterion = nn.SmoothL1Loss()

    def __call__(self, x, y):
        self.optimizer.zero_grad()
        loss = self.criterion(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build(device):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
    opt = Lion(net.parameters(), Schedule(1e-3, 10, 200))
    x = torch.randn(64, 10, device=device)
    return Regression(net, opt), (x, x.sum(1, keepdim=True))
