"""Regression trainer with averaged weights and a tabulated learning rate."""
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


def rate_table(base, warmup=20, total=400):
    rows = []
    for k in range(1, total + 1):
        if k < warmup:
            rows.append(base * k / warmup)
        else:
            done = (k - warmup) / (total - warmup)
            rows.append(base * (0.1 + 0.45 * (1.0 + math.cos(math.pi * done))))
    return rows


class CosineWarmup:
    def __init__(self, base, device, total=400):
        self.table = torch.tensor(rate_table(base, total=total), device=device)
        self.pos = torch.zeros(1, dtype=torch.int64, device=device)
        self.last = total - 1

    @torch.no_grad()
    def advance_into(self, lr):
        lr.copy_(self.table.index_select(0, self.pos).squeeze(0))
        self.pos.add_(1).clamp_(max=self.last)


class Ema:
    def __init__(self, model, decay=0.995):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name].lerp_(p, 1.0 - self.decay)

    def distance(self, model):
        parts = [(self.shadow[n] - p.detach()).square().sum() for n, p in model.named_parameters()]
        return torch.stack(parts).sum().sqrt()


class Trainer:
    def __init__(self, model, lr, device, max_norm=1.0):
        self.model = model
        self.max_norm = max_norm
        self.params = list(model.parameters())
        self.opt = torch.optim.AdamW(
            self.params,
            lr=torch.tensor(lr, device=device),
            weight_decay=0.01,
            capturable=device.type == "cuda",
        )
        self.schedule = CosineWarmup(lr, device)
        self.ema = Ema(model)

    def _set_rate(self):
        for group in self.opt.param_groups:
            self.schedule.advance_into(group["lr"])

    def __call__(self, x, y):
        self._set_rate()
        self.opt.zero_grad(set_to_none=True)
        loss = F.huber_loss(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, self.max_norm)
        self.opt.step()
        self.ema.update(self.model)
        return loss.detach(), self.ema.distance(self.model)


def build(device):
    torch.manual_seed(3)
    model = Net(12, 48, 4).to(device)
    trainer = Trainer(model, 2e-3, torch.device(device))
    x = torch.randn(32, 12, device=device)
    y = torch.randn(32, 4, device=device)
    return trainer, (x, y)
