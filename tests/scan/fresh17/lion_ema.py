"""Regression trainer with a hand-written Lion update and averaged weights."""
import copy

import torch
from torch import nn


class Lion:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), warm=200):
        self.params = list(params)
        self.lr, self.betas, self.warm = lr, betas, warm
        self.t = 0
        self.moment = {i: torch.zeros_like(p) for i, p in enumerate(self.params)}

    @torch.no_grad()
    def apply(self, grads):
        self.t += 1
        lr = self.lr * min(1.0, self.t / self.warm)
        b1, b2 = self.betas
        for i, (p, g) in enumerate(zip(self.params, grads)):
            m = self.moment[i]
            direction = torch.lerp(g, m, b1).sign()
            p.add_(direction + 0.01 * p, alpha=-lr)
            self.moment[i] = torch.lerp(g, m, b2)


class Averaged:
    def __init__(self, model, ceiling=0.999):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.ceiling = ceiling
        self.updates = 0

    @torch.no_grad()
    def follow(self, model):
        self.updates += 1
        decay = min(self.ceiling, (1 + self.updates) / (10 + self.updates))
        for slow, fast in zip(self.model.parameters(), model.parameters()):
            slow.lerp_(fast, 1.0 - decay)


class Trainer:
    def __init__(self, device):
        self.model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 3)).to(device)
        self.opt = Lion(self.model.parameters())
        self.avg = Averaged(self.model)

    def step(self, x, y):
        loss = nn.functional.smooth_l1_loss(self.model(x), y)
        grads = torch.autograd.grad(loss, list(self.model.parameters()))
        self.opt.apply(grads)
        self.avg.follow(self.model)
        return loss.detach()


def build(device):
    torch.manual_seed(7)
    trainer = Trainer(device)
    return trainer.step, (torch.randn(8, 12, device=device), torch.randn(8, 3, device=device))
