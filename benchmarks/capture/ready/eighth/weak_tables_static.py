"""Rotary tables in a weak cache; the step reads a static table into which opening a session copies."""
import weakref

import torch
from torch import nn

import graphsafe


class Table:
    def __init__(self, length, base, half, device):
        rate = base ** (-torch.arange(half, device=device).float() / half)
        self.angle = torch.arange(length, device=device).float()[:, None] * rate


class Rotary(nn.Module):
    tables = weakref.WeakValueDictionary()

    def __init__(self, width, length, device):
        super().__init__()
        self.half, self.length = width // 2, length
        self.base, self.held = 0.0, None
        self.register_buffer("angle", torch.zeros(length, width // 2, device=device))
        self.open_session(10000.0)

    def open_session(self, base):
        self.base, self.held = base, None
        key = (self.length, base)
        found = self.tables.get(key)
        if found is None:
            found = self.tables[key] = Table(self.length, base, self.half, self.angle.device)
        self.held = found
        self.angle.copy_(found.angle)

    def forward(self, x):
        angle = self.angle
        a, b = x[..., : self.half], x[..., self.half :]
        return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)


def build(device, batch=2, length=8, width=16):
    model = Rotary(width, length, device).eval()
    x = torch.randn(batch, length, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, length, width))
        if k % 6 == 5:
            model.open_session(10000.0 if model.base > 10000.0 else 500000.0)

    return graphsafe.Step(model, (x,), refresh=refresh)
