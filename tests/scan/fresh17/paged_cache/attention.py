import torch
from torch import nn


class PagedAttention(nn.Module):
    def __init__(self, width, pages, device):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, device=device)
        self.pages = pages

    def forward(self, x, table, length):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        self.pages.write(table, length, k, v)
        keys, vals = self.pages.read(table)
        span = torch.arange(keys.shape[1], device=x.device)
        score = torch.einsum("nd,nsd->ns", q, keys) / x.shape[-1] ** 0.5
        score = score.masked_fill(span > length.unsqueeze(1), float("-inf"))
        return x + torch.einsum("ns,nsd->nd", score.softmax(-1), vals)
