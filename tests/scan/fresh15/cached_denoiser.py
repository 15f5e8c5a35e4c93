"""A denoiser that keeps the features of its deep part and computes them only in some steps."""

import torch
import torch.nn as nn

CHANNELS, SIDE, EVERY = 8, 16, 3


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(CHANNELS, 2 * CHANNELS, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(2 * CHANNELS, 2 * CHANNELS, 3, padding=1)
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x):
        return self.up(torch.nn.functional.silu(self.middle(self.down(x))))


class CachedDenoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.deep = Deep()
        self.tail = nn.Conv2d(3 * CHANNELS, 3, 3, padding=1)
        self.number = 0
        self.kept = None
        self.anchor = None

    def features(self, shallow):
        if self.number % EVERY == 0:
            self.kept = self.deep(shallow)
        self.number += 1
        return self.kept

    @torch.no_grad()
    def forward(self, x):
        shallow = self.head(x)
        if self.anchor is None:
            self.anchor = shallow.mean((2, 3), keepdim=True)
        deep = self.features(shallow - self.anchor)
        return x - 0.1 * self.tail(torch.cat([shallow, deep], 1))


def build(device):
    torch.manual_seed(14)
    return CachedDenoiser().to(device).eval(), (torch.randn(2, 3, SIDE, SIDE, device=device),)
