"""A decode step with an int8 cache; scale and fill are written in place, and free entries are masked."""

import torch
import torch.nn as nn


class Int8Cache:
    def __init__(self, batch, length, width, device):
        self.keys = torch.zeros(batch, length, width, dtype=torch.int8, device=device)
        self.values = torch.zeros(batch, length, width, dtype=torch.int8, device=device)
        self.scale = torch.full((1,), 0.02, device=device)
        self.fill = torch.zeros(1, dtype=torch.long, device=device)
        self.place = torch.arange(length, device=device)

    def pack(self, x):
        return (x / self.scale).round().clamp(-127, 127).to(torch.int8)

    def widen(self, scale):
        factor = self.scale / scale
        self.keys.copy_((self.keys * factor).round())
        self.values.copy_((self.values * factor).round())
        self.scale.copy_(scale)

    def write(self, key, value):
        self.widen(torch.maximum(self.scale, torch.cat([key, value]).abs().amax() / 127))
        self.keys.index_copy_(1, self.fill, self.pack(key).unsqueeze(1))
        self.values.index_copy_(1, self.fill, self.pack(value).unsqueeze(1))
        self.fill.add_(1).remainder_(self.keys.shape[1])

    def read(self):
        return self.keys * self.scale, self.values * self.scale, self.place <= self.fill


class DecodeStep(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads = heads
        self.cache = None

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.cache.write(k, v)
        keys, values, used = self.cache.read()
        q = q.unflatten(-1, (self.heads, -1)).unsqueeze(2)
        keys = keys.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        values = values.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        score = q @ keys.transpose(-1, -2) / q.shape[-1] ** 0.5
        weight = score.masked_fill(~used, -1e9).softmax(-1)
        return x + self.out((weight @ values).squeeze(2).flatten(1))


def build(device):
    torch.manual_seed(26)
    step = DecodeStep().to(device).eval().requires_grad_(False)
    step.cache = Int8Cache(2, 48, 32, device)
    return step, (torch.randn(2, 32, device=device),)
