"""Decode attention cut to the longest context, computed from the scheduler's CPU copy of the lengths."""
import torch
import torch.nn as nn

import graphsafe


class Metadata:
    def __init__(self, batch, device):
        self.lens_cpu = torch.full((batch,), 8, dtype=torch.int64)
        self.lens = torch.full((batch,), 8, dtype=torch.int64, device=device)

    def update(self, lens):
        self.lens_cpu.copy_(lens)
        self.lens.copy_(lens)

    @property
    def max_len(self):
        return int(self.lens_cpu.max())


class Attention(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.q, self.o = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, k, v, meta):
        n = meta.max_len
        k, v = k[:, :n], v[:, :n]
        s = torch.einsum("bd,bld->bl", self.q(x), k) * x.shape[-1] ** -0.5
        live = torch.arange(n, device=x.device)[None] < meta.lens[:, None]
        return self.o(torch.einsum("bl,bld->bd", s.masked_fill(~live, float("-inf")).softmax(-1), v))


def build(device, batch=3, cap=64, d=16):
    attn = Attention(d).to(device).eval().requires_grad_(False)
    meta = Metadata(batch, device)
    k, v = torch.randn(batch, cap, d, device=device), torch.randn(batch, cap, d, device=device)
    x = torch.randn(batch, d, device=device)

    def step(x):
        return attn(x, k, v, meta)

    def refresh(args, kwargs, i):
        args[0].copy_(torch.randn(batch, d))
        meta.update(torch.randint(1, cap, (batch,)))

    return graphsafe.Step(step, (x,), refresh=refresh)
