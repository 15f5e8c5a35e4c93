from __future__ import annotations

import torch
from torch import nn

from .adapters import AdapterBank
from .layers import LoraLinear, SharedLinear


class Tower(nn.Module):
    def __init__(self, dim: int, depth: int, bank: AdapterBank):
        super().__init__()
        self.stem = SharedLinear(dim, bank)
        self.blocks = nn.ModuleList(LoraLinear(dim, bank) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    @torch.no_grad()
    def forward(self, x: torch.Tensor, slots: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + torch.tanh(block(self.norm(x), slots, live))
        return x


def build(device, batch: int = 4, dim: int = 16):
    bank = AdapterBank(device)
    for name in ("chat", "code", "legal"):
        bank.add(name, dim)
    tower = Tower(dim, depth=2, bank=bank).to(device).eval()
    x = torch.randn(batch, dim, device=device)
    slots = torch.arange(batch, device=device) % len(bank)
    live = torch.arange(batch, device=device) != 1
    return tower, (x, slots, live)
