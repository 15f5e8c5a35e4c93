"""Vector quantizer with exponential averages in place of gradients."""
import random

import torch
from torch import nn


class Codebook(nn.Module):
    def __init__(self, codes, width, decay=0.9, revive_every=5):
        super().__init__()
        self.codes, self.decay, self.revive_every = codes, decay, revive_every
        table = torch.randn(codes, width)
        self.register_buffer("table", table)
        self.register_buffer("usage", torch.ones(codes))
        self.register_buffer("sums", table.clone())
        self.calls = 0

    def _assign(self, z):
        return torch.cdist(z, self.table).argmin(dim=-1)

    @torch.no_grad()
    def _learn(self, z, code):
        onehot = nn.functional.one_hot(code, self.codes).to(z.dtype)
        self.usage = self.decay * self.usage + (1 - self.decay) * onehot.sum(0)
        self.sums = self.decay * self.sums + (1 - self.decay) * (onehot.t() @ z)
        self.table.copy_(self.sums / self.usage.unsqueeze(1).clamp_min(1e-3))
        shift = random.randrange(z.shape[0])
        fresh = z.roll(shift, 0)[: self.codes]
        self.calls += 1
        if self.calls % self.revive_every == 0:
            rare = (self.usage < 0.5).unsqueeze(1)
            self.table.copy_(torch.where(rare, fresh, self.table))
        else:
            self.table.lerp_(fresh, 1e-3)

    def forward(self, z):
        code = self._assign(z)
        chosen = self.table.index_select(0, code)
        self._learn(z, code)
        return z + (chosen - z).detach(), code


def build(device):
    torch.manual_seed(10)
    book = Codebook(codes=8, width=6).to(device)
    return book, (torch.randn(32, 6, device=device),)
