"""ALiBi bias and causal mask cached by shape in a module-level lru_cache, only read afterwards."""
import functools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


@functools.lru_cache(maxsize=None)
def alibi_slopes(heads):
    start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
    return tuple(start ** (i + 1) for i in range(heads))


@functools.lru_cache(maxsize=16)
def alibi_bias(heads, length, device, dtype):
    slopes = torch.tensor(alibi_slopes(heads), dtype=dtype).to(device)
    pos = torch.arange(length, device=device)
    dist = (pos[None] - pos[:, None]).to(dtype)
    bias = slopes[:, None, None] * dist
    return bias.masked_fill((pos[None] > pos[:, None])[None], float("-inf"))


class AlibiBlock(nn.Module):
    calls = 0

    def __init__(self, d=16, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        AlibiBlock.calls += 1  # a statistic for the log
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = alibi_bias(self.heads, t, x.device, x.dtype)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])
        return x + self.o(y.transpose(1, 2).flatten(2))


def build(device, batch=2, t=10):
    model = nn.Sequential(AlibiBlock(), AlibiBlock()).to(device).eval()
    for p in model.parameters():
        p.requires_grad_(False)
    return model, (torch.randn(batch, t, 16, device=device),)
