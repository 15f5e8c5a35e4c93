import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim, base=10000.0, length=64):
        super().__init__()
        frequency = base ** (-torch.arange(0, dim, 2) / dim)
        angle = torch.arange(length)[:, None] * frequency
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def extend(self, length):
        if length > self.cos.shape[0]:
            raise ValueError(f"{length} positions, at most {self.cos.shape[0]}")

    def forward(self, x, position):
        cos, sin = self.cos[position], self.sin[position]
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
