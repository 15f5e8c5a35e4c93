"""Per-row LoRA routing on a frozen projection."""
from __future__ import annotations

import enum
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


class Mixing(str, enum.Enum):
    GATHER = "gather"
    GROUPED = "grouped"


@dataclass
class AdapterSpec:
    name: str
    rank: int
    scale: float


class AdapterTable(nn.Module):
    def __init__(self, specs: list[AdapterSpec], inputs: int, outputs: int):
        super().__init__()
        self.specs = specs
        rank = max(s.rank for s in specs)
        self.down = nn.Parameter(torch.randn(len(specs), inputs, rank) * 0.02)
        self.up = nn.Parameter(torch.randn(len(specs), rank, outputs) * 0.02)

    def scales(self, like: torch.Tensor) -> torch.Tensor:
        return torch.tensor([s.scale for s in self.specs], dtype=like.dtype, device=like.device)

    def __getitem__(self, ids: torch.Tensor):
        return self.down[ids], self.up[ids]


class RoutedLinear(nn.Module):
    """`base` everywhere, plus one adapter a row; adapter 0 means none."""

    def __init__(self, base: nn.Linear, table: AdapterTable, mixing: Mixing, fade: float = 0.97):
        super().__init__()
        self.base = base
        self.table = table
        self.mixing = mixing
        self.fade = fade
        self.strength = torch.ones(())
        self._mix = getattr(self, f"_mix_{mixing.value}")

    def _mix_gather(self, x, ids):
        down, up = self.table[ids]
        return torch.einsum("bi,bir,bro->bo", x, down, up)

    def _mix_grouped(self, x, ids):
        out = x.new_zeros(x.shape[0], self.base.out_features)
        for k, (down, up) in enumerate(zip(self.table.down, self.table.up)):
            rows = ids == k
            out[rows] = x[rows] @ down @ up
        return out

    def forward(self, x, ids):
        y = self.base(x)
        delta = self._mix(x, ids)
        if 0 in ids:
            delta = delta * (ids != 0).unsqueeze(-1)
        delta = delta * self.table.scales(x)[ids].unsqueeze(-1)
        self.strength.mul_(self.fade)
        return y + delta * self.strength


class RoutedBlock(nn.Module):
    def __init__(self, dim: int, specs: list[AdapterSpec]):
        super().__init__()
        table = AdapterTable(specs, dim, dim)
        self.first = RoutedLinear(nn.Linear(dim, dim), table, Mixing.GATHER)
        self.second = RoutedLinear(nn.Linear(dim, dim), table, Mixing.GROUPED)

    def forward(self, x, ids):
        return x + self.second(F.silu(self.first(x, ids)), ids)


def build(device, batch: int = 8):
    torch.manual_seed(1)
    specs = [AdapterSpec("none", 4, 0.0), AdapterSpec("chat", 8, 1.0), AdapterSpec("code", 4, 0.5)]
    block = RoutedBlock(32, specs).to(device).requires_grad_(False)
    x = torch.randn(batch, 32, device=device)
    ids = torch.randint(0, len(specs), (batch,), device=device)
    return block, (x, ids)
