"""HF-style rotary module: forward rebuilds its cached tables when a longer sequence arrives (an eager prefill does)."""
import torch
import torch.nn as nn

import graphsafe


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, max_position_embeddings=32, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.max_seq_len_cached = 0
        self.start = max_position_embeddings

    def _set_cos_sin_cache(self, seq_len, device):
        self.max_seq_len_cached = seq_len
        t = torch.arange(seq_len, device=device, dtype=self.inv_freq.dtype)
        emb = torch.outer(t, self.inv_freq).repeat(1, 2)
        self.register_buffer("cos_cached", emb.cos(), persistent=False)
        self.register_buffer("sin_cached", emb.sin(), persistent=False)

    def forward(self, x, pos, seq_len):
        if seq_len > self.max_seq_len_cached:
            self._set_cos_sin_cache(max(seq_len, self.start), x.device)
        return self.cos_cached[pos], self.sin_cached[pos]


class Layer(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.q = nn.Linear(d, d)
        self.rotary = RotaryEmbedding(d)

    def forward(self, x, pos, seq_len):
        q = self.q(x)
        cos, sin = self.rotary(q, pos, seq_len)
        a, b = q.chunk(2, -1)
        return q * cos + torch.cat((-b, a), -1) * sin


def build(device, batch=4):
    layer = Layer().to(device).eval().requires_grad_(False)
    x = torch.randn(batch, 16, device=device)
    pos = torch.zeros(batch, dtype=torch.long, device=device)

    def decode(x, pos):
        return layer(x, pos, 32)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 16))
        args[1].copy_(torch.randint(0, 32, (batch,)))
        if k == 5:  # one long prompt
            layer(torch.randn(80, 16, device=device), torch.arange(80, device=device), 80)

    return graphsafe.Step(decode, (x, pos), refresh=refresh)
