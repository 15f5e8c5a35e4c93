"""Rotary tables in an LRU cache of two; prefills of other lengths between decode steps evict ours."""
import functools

import torch
from torch import nn

import graphsafe

DEVICE = torch.device("cpu")


@functools.lru_cache(maxsize=2)
def rotary(length, dim):
    freq = 10000 ** (-torch.arange(0, dim, 2, device=DEVICE) / dim)
    return torch.outer(torch.arange(length, device=DEVICE), freq).cos()


class Attention(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.q = nn.Linear(dim, dim)

    def forward(self, x):
        table = rotary(x.shape[0], 64)  # LINE: memory of a cache that others empty
        return self.q(x) * table


def build(device):
    global DEVICE
    DEVICE = device
    torch.manual_seed(9)
    layer = Attention().to(device).requires_grad_(False)
    x = torch.randn(48, 32, device=device)
    live = []
    rotary(48, 64)  # the prefill's table, made before any graph

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(48, 32))
        if k % 12 == 11:  # new requests are prefilled, with tables of their own
            for length in (40, 56):
                rotary(length, 64)
            live.extend(torch.full((48, 32), float(k), device=device) for _ in range(16))  # the freed block has a new owner
            rotary(48, 64)  # and the warm cache is restored before we decode again

    return graphsafe.Step(layer, (x,), refresh=refresh)
