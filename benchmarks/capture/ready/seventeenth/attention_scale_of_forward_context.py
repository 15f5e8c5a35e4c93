"""Attention with a temperature that grows with the position: faulty, the forward context holds a host position."""
import math
from contextlib import contextmanager
from types import SimpleNamespace

import torch

import graphsafe

FLOOR = 48
_context = None


@contextmanager
def set_forward_context(**values):
    global _context
    before, _context = _context, SimpleNamespace(**values)
    try:
        yield
    finally:
        _context = before


class Attention(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = torch.nn.Linear(dim, dim, bias=False)

    def forward(self, x, keys):
        position = _context.position
        scale = 1.0 + 0.5 * math.log(1 + (position + 1) // FLOOR)
        return torch.softmax((self.query(x) * scale) @ keys.T, -1) @ keys


@torch.no_grad()
def build(device, dim=8):
    layer = Attention(dim).to(device)
    runner = SimpleNamespace(position=0)

    @torch.no_grad()
    def step(x, keys):
        with set_forward_context(position=runner.position):
            return layer(x, keys)

    def refresh(args, kwargs, k):
        runner.position += 1
        args[0].copy_(torch.randn(1, dim))
        args[1][k % 16].copy_(torch.randn(dim))

    args = (torch.randn(1, dim, device=device), torch.randn(16, dim, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
