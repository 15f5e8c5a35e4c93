"""Diffusion transformer with a residual cache: while the modulated input hardly changes, the blocks are skipped."""
import torch
import torch.nn as nn

import graphsafe


class Transformer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.modulate = nn.Linear(1, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width)) for _ in range(4))


class Cached:
    def __init__(self, device):
        self.net = Transformer().to(device).requires_grad_(False)
        self.x, self.noise = torch.randn(6, 32, device=device), torch.randn(6, 32, device=device)
        self.t = torch.ones(1, 1, device=device)
        self.residual = torch.zeros(6, 32, device=device)
        self.before, self.change = torch.zeros(6, 32, device=device), torch.ones((), device=device)
        self.accumulated, self.skip = 0.0, False

    def plan(self, args, kwargs, k):
        """Before each step: is the accumulated change of the modulated input below the threshold?"""
        self.t.fill_(1.0 - (k % 80) / 80)
        if k % 80 == 0:
            self.x.copy_(torch.randn(6, 32))
        self.accumulated += float(self.change)
        self.skip = k % 80 > 55 and self.accumulated < 0.05
        if not self.skip:
            self.accumulated = 0.0

    def step(self):
        inner = self.x * (1 + self.net.modulate(self.t))
        self.change.copy_((inner - self.before).abs().mean() / (self.before.abs().mean() + 1e-6))
        self.before.copy_(inner)
        if self.skip:
            out = inner + self.residual
        else:
            out = inner
            for block in self.net.blocks:
                out = out + block(out)
            self.residual.copy_(out - inner)
        self.x.mul_(0.98).add_(out, alpha=0.004)
        return self.x, out


def build(device):
    cached = Cached(device)
    return graphsafe.Step(cached.step, (), {}, refresh=cached.plan)
