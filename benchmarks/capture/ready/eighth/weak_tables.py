"""Rotary tables in a weak cache: a table lives while a session holds it; a new session may ask for another base."""
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

    def __init__(self, width, length):
        super().__init__()
        self.half, self.length = width // 2, length
        self.base, self.held = 10000.0, None

    def open_session(self, base):
        self.base, self.held = base, None  # <-B

    def table(self, device):
        key = (self.length, self.base)
        found = self.tables.get(key)
        if found is None:
            found = self.tables[key] = Table(self.length, self.base, self.half, device)
        self.held = found
        return found

    def forward(self, x):
        angle = self.table(x.device).angle  # <-A
        a, b = x[..., : self.half], x[..., self.half :]
        return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)


def build(device, batch=2, length=8, width=16):
    model = Rotary(width, length).to(device).eval()
    x = torch.randn(batch, length, width).to(device)
    model(x)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, length, width))
        if k % 6 == 5:
            model.open_session(10000.0 if model.base > 10000.0 else 500000.0)

    return graphsafe.Step(model, (x,), refresh=refresh)
