"""A denoiser that keeps the features of its deep part in a buffer; a gate on the device blends old and new."""

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
    def __init__(self, batch):
        super().__init__()
        self.head = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.deep = Deep()
        self.tail = nn.Conv2d(3 * CHANNELS, 3, 3, padding=1)
        self.register_buffer("number", torch.zeros((), dtype=torch.long))
        self.register_buffer("kept", torch.zeros(batch, 2 * CHANNELS, SIDE, SIDE))

    def features(self, shallow):
        fresh = self.number % EVERY == 0
        self.kept.copy_(torch.where(fresh, self.deep(shallow), self.kept))
        self.number.add_(1)
        return self.kept

    @torch.no_grad()
    def forward(self, x):
        shallow = self.head(x)
        anchor = shallow.mean((2, 3), keepdim=True)
        deep = self.features(shallow - anchor)
        return x - 0.1 * self.tail(torch.cat([shallow, deep], 1))


def build(device):
    torch.manual_seed(14)
    return CachedDenoiser(2).to(device).eval(), (torch.randn(2, 3, SIDE, SIDE, device=device),)
