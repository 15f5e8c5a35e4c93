"""Activation checkpointing of blocks with dropout, with checkpoint's default preserve_rng_state=True."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import graphsafe


class Block(nn.Module):
    def __init__(self, d, p=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Dropout(p), nn.Linear(4 * d, d), nn.Dropout(p))

    def forward(self, x):
        return x + self.ff(self.norm(x))


class Net(nn.Module):
    def __init__(self, d=16, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(d) for _ in range(depth))
        self.head = nn.Linear(d, 5)

    def forward(self, x):
        for b in self.blocks:
            x = checkpoint(b, x, use_reentrant=False)
        return self.head(x)


def build(device, batch=8):
    net = Net().to(device).train()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, capturable=True)
    x = torch.randn(batch, 16, device=device)
    y = torch.randint(0, 5, (batch,), device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 16))
        args[1].copy_(torch.randint(0, 5, (batch,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)
