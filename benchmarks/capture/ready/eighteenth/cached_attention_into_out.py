"""Attention stores a key and writes into the caller's result: faulty, its scale is a float, larger for long prompts."""
import torch

import graphsafe


class Attention:
    def __init__(self, device, length=32, dim=16):
        self.keys = torch.randn(length, dim, device=device)
        self.scale = dim**-0.5

    def __call__(self, query, key, slot, out):
        self.keys.index_copy_(0, slot, key)
        torch.matmul(torch.softmax(query @ self.keys.T * self.scale, -1), self.keys, out=out)


def build(device, dim=16):
    attention = Attention(device, dim=dim)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, dim))
        args[1].copy_(torch.randn(1, dim))
        args[2].fill_(k % 32)
        attention.scale = dim**-0.5 * (1.0 if k < 40 else 1.1)

    args = (torch.randn(4, dim, device=device), torch.randn(1, dim, device=device))
    more = (torch.zeros(1, dtype=torch.long, device=device), torch.empty(4, dim, device=device))
    return graphsafe.Step(attention, (*args, *more), refresh=refresh)
