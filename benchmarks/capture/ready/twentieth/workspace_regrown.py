"""Split-KV decode with a shared workspace that a longer eager prefill reallocates."""
import torch
import torch.nn as nn

import graphsafe


class Workspace:
    def __init__(self, device):
        self.device = device
        self.buffer = torch.empty(0, device=device)

    def get(self, *shape):
        n = 1
        for s in shape:
            n *= s
        if self.buffer.numel() < n:
            self.buffer = torch.empty(n, device=self.device)
        return self.buffer[:n].view(*shape)


class SplitAttention(nn.Module):
    def __init__(self, ws, d=16, splits=4):
        super().__init__()
        self.ws, self.splits = ws, splits
        self.q = nn.Linear(d, d)

    def forward(self, x, k, v):
        b, d = x.shape
        q = self.q(x)
        parts = self.ws.get(self.splits, b, d + 1)
        for i, (ks, vs) in enumerate(zip(k.chunk(self.splits, 1), v.chunk(self.splits, 1))):
            s = torch.einsum("bd,bld->bl", q, ks) * d**-0.5
            lse = s.logsumexp(-1, keepdim=True)
            parts[i, :, :d].copy_(torch.einsum("bl,bld->bd", (s - lse).exp(), vs))
            parts[i, :, d:].copy_(lse)
        w = parts[:, :, d:].softmax(0)
        return (parts[:, :, :d] * w).sum(0)


class Engine:
    def __init__(self, device, batch=2, length=16, d=16):
        self.ws = Workspace(device)
        self.attn = SplitAttention(self.ws, d).to(device).requires_grad_(False)
        self.k, self.v = torch.randn(batch, length, d, device=device), torch.randn(batch, length, d, device=device)
        self.x = torch.randn(batch, d, device=device)
        self.device = device

    def decode(self):
        return self.attn(self.x, self.k, self.v)

    def serve(self, k):
        self.x.copy_(torch.randn(self.x.shape))
        if k == 6:  # a larger batch runs eagerly once
            big = torch.randn(32, 16, 16, device=self.device)
            self.attn(torch.randn(32, 16, device=self.device), big, big)


def build(device):
    e = Engine(device)
    return graphsafe.Step(e.decode, refresh=lambda a, kw, k: e.serve(k))
