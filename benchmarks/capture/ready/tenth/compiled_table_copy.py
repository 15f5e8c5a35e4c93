"""A compiled attention block; the rotary table is rewritten where it is when the context is scaled to another length."""
import torch
from torch import nn

import graphsafe


def rotary_table(length, width, stretch, device):
    frequency = 1.0 / (100.0 ** (torch.arange(0, width, 2) / width))
    angle = torch.arange(length)[:, None] / stretch * frequency
    return torch.cat([angle.cos(), angle.sin()], dim=-1).to(device)


class Block(nn.Module):
    def __init__(self, length, width, device):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.table = rotary_table(length, width, 1.0, device)

    def rotate(self, x):
        cos, sin = self.table.chunk(2, dim=-1)
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)

    def forward(self, x):
        query, key = self.rotate(self.query(x)), self.rotate(self.key(x))
        scores = torch.softmax(query @ key.transpose(-1, -2) / x.shape[-1] ** 0.5, dim=-1)
        return x + scores @ x


def build(device, batch=2, length=24, width=16):
    model = Block(length, width, device).to(device).eval().requires_grad_(False)
    step = torch.compile(model)
    x = torch.randn(batch, length, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, length, width))
        if k % 18 == 17:
            model.table.copy_(rotary_table(length, width, 1.0 + k // 18 % 3, device))

    return graphsafe.Step(step, (x,), refresh=refresh)
