"""A hand-written Lion with warm-up, gradient clipping and skipped bad steps."""
import math

import torch
from torch import nn


class Lion:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.01, warmup=50, max_norm=1.0):
        self.params = [p for p in params if p.requires_grad]
        self.lr = lr
        self.betas = betas
        self.weight_decay = weight_decay
        self.warmup = warmup
        self.max_norm = max_norm
        self.t = 0
        self.momentum = [torch.zeros_like(p) for p in self.params]

    def _rate(self):
        return self.lr * min(1.0, self.t / self.warmup) * (0.5 + 0.5 * math.cos(self.t / 1000))

    def _clip(self):
        total = torch.stack([p.grad.norm() for p in self.params]).norm()
        if float(total) > self.max_norm:
            for p in self.params:
                p.grad.mul_(self.max_norm / (total + 1e-6))

    @torch.no_grad()
    def step(self):
        self.t += 1
        self._clip()
        rate = self._rate()
        beta1, beta2 = self.betas
        for p, m in zip(self.params, self.momentum):
            if not torch.isfinite(p.grad).all():
                continue
            update = m.mul(beta1).add(p.grad, alpha=1 - beta1).sign_()
            p.mul_(1 - rate * self.weight_decay)
            p.add_(update, alpha=-rate)
            m.mul_(beta2).add_(p.grad, alpha=1 - beta2)

    def zero_grad(self):
        for p in self.params:
            if p.grad is not None:
                p.grad.zero_()

    def state_dict(self):
        return {"t": self.t, "momentum": [m.cpu() for m in self.momentum]}


class Regressor(nn.Module):
    def __init__(self, features, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)


class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer

    def train_step(self, x, y):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.smooth_l1_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build(device):
    torch.manual_seed(1)
    model = Regressor(12).to(device)
    trainer = Trainer(model, Lion(model.parameters()))
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    x, y = torch.randn(16, 12, device=device), torch.randn(16, device=device)
    return trainer.train_step, (x, y)
