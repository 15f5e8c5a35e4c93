import torch
from torch import nn


def inverse_frequencies(dim, base, device):
    return base ** (-torch.arange(0, dim, 2, device=device) / dim)


class Rotary(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.dim = dim
        self.base = base
        self.cos = None
        self.sin = None

    def _tables(self, position):
        if self.cos is None:
            angle = position[:, None] * inverse_frequencies(self.dim, self.base, position.device)
            self.cos = angle.cos()
            self.sin = angle.sin()
        return self.cos, self.sin

    def forward(self, x, position):
        cos, sin = self._tables(position)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
