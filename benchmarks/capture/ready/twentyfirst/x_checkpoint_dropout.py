"""Activation checkpointing with its defaults around a block with dropout."""
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

import graphsafe


class Block(nn.Module):
    def __init__(self, dim=24, p=0.1):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(p), nn.Linear(4 * dim, dim))

    def forward(self, x):
        return x + self.net(x)


class Model(nn.Module):
    def __init__(self, dim=24, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 4)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def build(device):
    torch.manual_seed(8)
    model = Model().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    x = torch.randn(8, 24, device=device)
    y = torch.randint(4, (8,), device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 24))
        args[1].copy_(torch.randint(4, (8,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)
