"""Decode step with dynamic NTK rotary scaling: beyond the trained length the frequencies are worked out anew."""
import torch
import torch.nn as nn

import graphsafe


class DynamicRotary(nn.Module):
    def __init__(self, dim=16, trained=128):
        super().__init__()
        self.dim, self.trained, self.longest = dim, trained, trained
        self.register_buffer("inv_freq", self.frequencies(10000.0), persistent=False)

    def frequencies(self, base, device=None):
        return 1.0 / base ** (torch.arange(0, self.dim, 2, device=device, dtype=torch.float32) / self.dim)

    def update(self, length):
        if length > self.longest:
            scale = (2.0 * length / self.trained - 1.0) ** (self.dim / (self.dim - 2))
            self.inv_freq = self.frequencies(10000.0 * scale, self.inv_freq.device)
            self.longest = length + 15  # in strides, so that it is not done for each token

    def forward(self, x, positions, length):
        self.update(length)
        angle = positions[:, None].float() * self.inv_freq
        cos, sin = angle.cos(), angle.sin()
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Decoder:
    def __init__(self, device):
        self.rotary = DynamicRotary().to(device)
        self.proj = nn.Linear(16, 32).to(device).requires_grad_(False)
        self.cache = torch.zeros(512, 16, device=device)
        self.x, self.position = torch.randn(1, 16, device=device), torch.zeros(1, dtype=torch.long, device=device)
        self.length = 20

    def advance(self, k):
        self.length = 20 + k
        self.position.fill_(self.length - 1)
        self.x.copy_(torch.randn(1, 16))

    def step(self):
        q, key = self.proj(self.x).chunk(2, -1)
        q = self.rotary(q, self.position, self.length)
        self.cache.index_copy_(0, self.position, self.rotary(key, self.position, self.length))
        seen = torch.arange(512, device=q.device) <= self.position
        return (q @ self.cache.T).masked_fill(~seen, -1e4).softmax(-1) @ self.cache


def build(device):
    decoder = Decoder(device)
    return graphsafe.Step(decoder.step, (), {}, refresh=lambda args, kwargs, k: decoder.advance(k))
