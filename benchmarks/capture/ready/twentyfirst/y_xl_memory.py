"""Transformer-XL: the memory of the last segments is shifted in place; relative position bias."""
import torch
import torch.nn as nn

import graphsafe


class XLLayer(nn.Module):
    def __init__(self, dim=24, heads=3, mem=12, seg=4, batch=2):
        super().__init__()
        self.heads, self.hd, self.mem, self.seg = heads, dim // heads, mem, seg
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.bias = nn.Embedding(mem + seg, heads)
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("memory", torch.zeros(batch, mem, dim))
        i = torch.arange(seg)[:, None] + mem
        j = torch.arange(mem + seg)[None]
        self.register_buffer("dist", (i - j).clamp(0, mem + seg - 1))
        self.register_buffer("future", j > i)

    def forward(self, x):
        b, t, d = x.shape
        ctx = torch.cat([self.memory, x], 1)
        self.memory.copy_(ctx[:, -self.mem :])
        q = self.q(x).view(b, t, self.heads, self.hd).transpose(1, 2)
        k, v = self.kv(ctx).view(b, -1, 2, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-1, -2) / self.hd**0.5 + self.bias(self.dist).permute(2, 0, 1)
        a = a.masked_fill(self.future, float("-inf")).softmax(-1)
        return self.norm(x + self.o((a @ v).transpose(1, 2).reshape(b, t, d)))


def build(device):
    torch.manual_seed(5)
    model = nn.Sequential(XLLayer(), XLLayer()).to(device).eval().requires_grad_(False)
    x = torch.randn(2, 4, 24, device=device)

    def reset():
        for layer in model:
            layer.memory.zero_()

    return graphsafe.Step(model, (x,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(2, 4, 24)), reset=reset)
