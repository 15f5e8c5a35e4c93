"""A trainer with a wrapped optimiser and metrics."""
import torch
import torch.nn.functional as F
from torch import nn


class Inner:
    def __init__(self, params, lr):
        self.params, self.lr = params, lr
        self.velocity = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def apply(self):
        for p, v in zip(self.params, self.velocity):
            v.mul_(0.9).add_(p.grad)
            p.add_(v, alpha=-self.lr)


class Lookahead:
    def __init__(self, inner, every=5, pull=0.5):
        self.inner, self.every, self.pull = inner, every, pull
        self.slow = [p.detach().clone() for p in inner.params]
        self.count = 0

    @torch.no_grad()
    def apply(self):
        self.inner.apply()
        self.count += 1
        if self.count % self.every == 0:
            for s, p in zip(self.slow, self.inner.params):
                s.lerp_(p, self.pull)
                p.copy_(s)


class Meter:
    def __init__(self, name):
        self.name, self.lines = name, []

    def update(self, value):
        self.lines.append(f"{self.name}={value:.4f}")


class Trainer:
    def __init__(self, net, opt, meter):
        self.net, self.opt, self.meter = net, opt, meter

    def train_step(self, x, y):
        for p in self.net.parameters():
            p.grad = None
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.opt.apply()
        self.meter.update(loss.detach())
        return loss.detach()


def build(device):
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
    opt = Lookahead(Inner(list(net.parameters()), 0.05))
    trainer = Trainer(net, opt, Meter("loss"))
    return trainer.train_step, (torch.randn(16, 8, device=device), torch.randint(0, 4, (16,), device=device))
