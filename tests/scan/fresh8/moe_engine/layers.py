import torch
import torch.nn.functional as F
from torch import nn

from .routing import Router, by_expert


class Expert(nn.Module):
    def __init__(self, width: int, inner: int):
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class Mixture(nn.Module):
    def __init__(self, width: int, inner: int, experts: int):
        super().__init__()
        self.router = Router(width, experts)
        self.experts = nn.ModuleList(Expert(width, inner) for _ in range(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, choice = self.router(x)
        order, sizes = by_expert(choice, len(self.experts))
        rows = order // choice.shape[1]
        parts = x[rows].split(sizes.tolist())
        out = torch.cat([expert(part) for expert, part in zip(self.experts, parts)])
        scaled = out * weight.flatten()[order, None]
        return torch.zeros_like(x).index_add_(0, rows, scaled)


class SparseBlock(nn.Module):
    def __init__(self, width: int, experts: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.moe = Mixture(width, 4 * width, experts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        busy = x.abs().sum(-1).nonzero().squeeze(-1)
        y = self.moe(self.norm(x[busy]))
        return x.index_add(0, busy, y)
