"""Rotary embedding with dynamic NTK scaling: the tables are rebuilt when a longer sequence is seen."""
import torch
import torch.nn as nn

import graphsafe


class DynamicNTKRotary(nn.Module):
    def __init__(self, dim, max_pos=64, base=10000.0, device=None):
        super().__init__()
        self.dim, self.base, self.max_pos = dim, base, max_pos
        self._set_cache(max_pos, device)

    def _set_cache(self, length, device):
        self.cached = length
        base = self.base
        if length > self.max_pos:
            base = base * ((2.0 * length / self.max_pos) - 1.0) ** (self.dim / (self.dim - 2))
        inv = 1.0 / (base ** (torch.arange(0, self.dim, 2, device=device).float() / self.dim))
        freqs = torch.outer(torch.arange(length, device=device).float(), inv)
        emb = torch.cat((freqs, freqs), dim=-1)
        self.cos = emb.cos()
        self.sin = emb.sin()

    def forward(self, x, positions, seq_len):
        if seq_len > self.cached:
            self._set_cache(2 * seq_len, x.device)
        cos, sin = self.cos[positions], self.sin[positions]
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin


class Runner:
    def __init__(self, device, batch=4, dim=16):
        self.proj = nn.Linear(dim, dim, device=device).requires_grad_(False)
        self.rope = DynamicNTKRotary(dim, device=device)
        self.positions = torch.zeros(batch, dtype=torch.long, device=device)
        self.longest = 8

    def schedule(self):
        self.longest += 1
        self.positions.copy_(torch.randint(0, min(self.longest, 60), self.positions.shape))

    def step(self, x):
        return self.rope(self.proj(x), self.positions, self.longest)


def build(device):
    torch.manual_seed(7)
    runner = Runner(device)
    x = torch.randn(4, 16, device=device)

    def refresh(args, kwargs, k):
        runner.schedule()
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(runner.step, (x,), refresh=refresh)
