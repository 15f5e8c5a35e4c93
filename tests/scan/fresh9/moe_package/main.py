"""A mixture-of-experts block, its settings and its factory."""

from dataclasses import dataclass

import torch
from torch import nn

from experts import Bank, Load, Router


@dataclass(frozen=True)
class Settings:
    width: int = 16
    experts: int = 4
    tokens: int = 12
    track_load: bool = True


class Block(nn.Module):
    def __init__(self, settings, device):
        super().__init__()
        self.norm = nn.LayerNorm(settings.width)
        self.router = Router(settings.width, settings.experts)
        self.bank = Bank(settings.width, settings.experts)
        self.load = Load(settings.experts, device) if settings.track_load else None

    def forward(self, x):
        normed = self.norm(x)
        weight, index = self.router(normed)
        if self.load is not None:
            self.load.record(index)
        return x + self.bank(normed, weight, index)


class Stack(nn.Module):
    def __init__(self, settings, device, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block(settings, device) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def build(device):
    settings = Settings()
    model = Stack(settings, device).to(device).eval().requires_grad_(False)
    return model, (torch.randn(settings.tokens, settings.width, device=device),)
