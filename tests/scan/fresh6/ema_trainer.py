"""Regression trainer that keeps an exponential average of the weights."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, n_in, width, n_out):
        super().__init__()
        self.inp = nn.Linear(n_in, width)
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, n_out)

    def forward(self, x):
        h = F.silu(self.inp(x))
        h = h + F.silu(self.mid(h))
        return self.out(h)


class CosineWarmup:
    """Linear warm-up, then a cosine down to a tenth of the base rate."""

    def __init__(self, base, warmup=20, total=400):
        self.base = base
        self.warmup = warmup
        self.total = total
        self.k = 0

    def advance(self):
        self.k += 1
        if self.k < self.warmup:
            return self.base * self.k / self.warmup
        done = min(1.0, (self.k - self.warmup) / (self.total - self.warmup))
        return self.base * (0.1 + 0.45 * (1.0 + math.cos(math.pi * done)))


class Ema:
    def __init__(self, model, decay=0.995):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name] = self.shadow[name] * self.decay + p * (1.0 - self.decay)

    def distance(self, model):
        parts = [(self.shadow[n] - p.detach()).square().sum() for n, p in model.named_parameters()]
        return torch.stack(parts).sum().sqrt()


class Trainer:
    def __init__(self, model, lr, max_norm=1.0):
        self.model = model
        self.max_norm = max_norm
        self.params = list(model.parameters())
        self.opt = torch.optim.AdamW(self.params, lr=lr, weight_decay=0.01)
        self.schedule = CosineWarmup(lr)
        self.ema = Ema(model)

    def _set_rate(self):
        rate = self.schedule.advance()
        for group in self.opt.param_groups:
            group["lr"] = rate

    def __call__(self, x, y):
        self._set_rate()
        self.opt.zero_grad(set_to_none=True)
        loss = F.huber_loss(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, self.max_norm, error_if_nonfinite=True)
        self.opt.step()
        self.ema.update(self.model)
        return loss.detach(), self.ema.distance(self.model)


def build(device):
    torch.manual_seed(3)
    model = Net(12, 48, 4).to(device)
    trainer = Trainer(model, lr=2e-3)
    x = torch.randn(32, 12, device=device)
    y = torch.randn(32, 4, device=device)
    return trainer, (x, y)
