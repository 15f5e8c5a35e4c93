"""Decoder layer with a compressive memory: recent keys in a tape, older ones summarised."""
import torch
from torch import nn


class Tape:
    def __init__(self, batch, window, dim, device):
        self.keys = torch.zeros(batch, window, dim, device=device)
        self.values = torch.zeros(batch, window, dim, device=device)
        self.filled = 0
        self.window = window
        self.summary = torch.zeros(batch, 1, dim, device=device)

    def write(self, k, v):
        at = self.filled % self.window
        self.keys[:, at].copy_(k)
        self.values[:, at].copy_(v)
        self.filled += 1


class CompressiveLayer(nn.Module):
    def __init__(self, dim=16, batch=2, window=6, device=None):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.squash = nn.Linear(dim, dim)
        self.tape = Tape(batch, window, dim, device)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.tape.write(k, v)
        oldest = self.squash(self.tape.keys.mean(1, keepdim=True))
        self.tape.summary = torch.lerp(self.tape.summary, oldest, 0.1)
        keys = torch.cat([self.tape.summary, self.tape.keys], 1)
        values = torch.cat([self.tape.summary, self.tape.values], 1)
        att = (keys @ q[..., None]).squeeze(-1) * q.shape[-1] ** -0.5
        return x + (att.softmax(-1)[:, None] @ values).squeeze(1)


def build(device):
    torch.manual_seed(0)
    layer = CompressiveLayer(device=device).to(device).eval()
    x = torch.randn(2, 16, device=device)
    return torch.no_grad()(lambda x: layer(x)), (x,)
