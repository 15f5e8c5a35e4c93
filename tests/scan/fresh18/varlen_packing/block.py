"""Causal attention inside the sequences of a packed batch."""

import torch
import torch.nn.functional as F
from torch import nn

from .layout import PackedLayout


class PackedBlock(nn.Module):
    def __init__(self, width: int, heads: int, layout: PackedLayout, device):
        super().__init__()
        self.heads = heads
        self.layout = layout
        self.qkv = nn.Linear(width, 3 * width, device=device)
        self.out = nn.Linear(width, width, device=device)
        self.norm = nn.LayerNorm(width, device=device)
        self.register_buffer("positions", torch.arange(layout.capacity, device=device))

    def mask(self) -> torch.Tensor:
        causal = self.positions.unsqueeze(0) <= self.positions.unsqueeze(1)
        return causal & self.layout.same_sequence(self.positions)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        self.layout.assign(lengths)
        tokens, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(tokens, 3, self.heads, -1).permute(1, 2, 0, 3).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask())
        return x + self.out(mixed.transpose(0, 1).reshape(tokens, width))


def build(device):
    torch.manual_seed(2)
    layout = PackedLayout.empty(sequences=4, capacity=40, device=device)
    block = PackedBlock(32, 4, layout, device).requires_grad_(False)
    x = torch.randn(40, 32, device=device)
    lengths = torch.randint(4, 10, (4,), device=device)
    return block, (x, lengths)
