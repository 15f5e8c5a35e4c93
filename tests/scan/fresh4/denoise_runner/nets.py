from __future__ import annotations

import torch
from torch import nn


class UNet(nn.Module):
    def __init__(self, channels: int = 4, width: int = 16):
        super().__init__()
        self.inp = nn.Conv2d(channels, width, 3, padding=1)
        self.time = nn.Linear(1, width)
        self.text = nn.Linear(8, width)
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, sigma, ctx):
        shift = self.time(sigma.view(1, 1)) + self.text(ctx)
        return self.out(torch.relu(self.inp(x) + shift[..., None, None]))
