"""Attention whose live heads are a frozenset; head pruning between steps takes one away."""

import torch

import graphsafe


class Heads:
    def __init__(self, device, n=4, width=16):
        self.q = [torch.randn(width, 8, device=device) / 4 for _ in range(n)]
        self.v = [torch.randn(width, width, device=device) / 4 for _ in range(n)]
        self.alive = frozenset(range(n))

    def forward(self, x):
        out = torch.zeros_like(x)
        for head in sorted(self.alive):
            scores = (x @ self.q[head]) @ (x @ self.q[head]).T / 8**0.5
            out = out + scores.softmax(-1) @ (x @ self.v[head])
        return out / len(self.alive)

    def prune(self, head):
        self.alive -= {head}


def build(device):
    heads = Heads(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(10, 16))
        if k == 101:
            heads.prune(2)

    return graphsafe.Step(heads.forward, (torch.randn(10, 16, device=device),), refresh=refresh)
