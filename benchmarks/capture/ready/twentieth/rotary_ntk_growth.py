"""Rotary embedding with dynamic NTK: the table is rebuilt when the engine's longest request outgrows it."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class DynamicNTKRotary:
    def __init__(self, dim, base=10000.0, max_len=64, device=None):
        self.dim, self.base, self.orig = dim, base, max_len
        self.device = device
        self.cached = 0
        self.ensure(max_len)

    def ensure(self, length):
        if length <= self.cached:
            return
        base = self.base
        if length > self.orig:
            base = base * (2 * length / self.orig - 1) ** (self.dim / (self.dim - 2))
        inv = 1.0 / (base ** (torch.arange(0, self.dim, 2, device=self.device).float() / self.dim))
        t = torch.arange(length, device=self.device).float()
        emb = torch.outer(t, inv).repeat(1, 2)
        self.cos, self.sin = emb.cos(), emb.sin()
        self.cached = length

    def apply(self, x, pos):
        cos, sin = self.cos[pos][:, None], self.sin[pos][:, None]
        x1, x2 = x.chunk(2, -1)
        return x * cos + torch.cat((-x2, x1), -1) * sin


class Engine:
    def __init__(self, device, batch=3, d=32, heads=2):
        self.batch, self.heads = batch, heads
        self.rotary = DynamicNTKRotary(d // heads, device=device)
        self.wq = nn.Linear(d, d).to(device).requires_grad_(False)
        self.x = torch.randn(batch, d, device=device)
        self.pos = torch.zeros(batch, dtype=torch.long, device=device)

    def prepare(self, k):
        longest = 40 + 4 * k
        self.rotary.ensure(longest)
        self.pos.copy_(torch.randint(0, longest, (self.batch,)))
        self.x.copy_(torch.randn(self.x.shape))

    def step(self):
        q = self.wq(self.x).view(self.batch, self.heads, -1)
        return self.rotary.apply(q, self.pos)


def build(device):
    e = Engine(device)
    return graphsafe.Step(e.step, refresh=lambda a, kw, k: e.prepare(k))
