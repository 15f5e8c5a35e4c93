import torch
from torch import nn


class PagedBlock(nn.Module):
    def __init__(self, dim=16, slots=12):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.register_buffer("k", torch.zeros(slots, dim))
        self.register_buffer("v", torch.zeros(slots, dim))
        self.pos = 0
        self.hist = []

    @torch.no_grad()
    def forward(self, x, length):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.k[self.pos % 12].copy_(k[0])
        self.v[self.pos % 12].copy_(v[0])
        self.pos += 1
        n = int(length.max())
        att = torch.softmax(q @ self.k[:n].t(), -1)
        y = att @ self.v[:n]
        keep = y.abs().sum(0) > 0.01
        return y[:, keep].sum(1)


def build(device):
    torch.manual_seed(0)
    block = PagedBlock().to(device)
    return block, (torch.randn(2, 16, device=device), torch.tensor([6, 9], device=device))
