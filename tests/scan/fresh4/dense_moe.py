"""Mixture of experts where every expert sees every token and a sparse weight mixes them."""
from __future__ import annotations

import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


class LoadBalance(nn.Module):
    def __init__(self, experts: int, momentum: float = 0.9):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("index", torch.arange(experts))
        self.register_buffer("share", torch.full((experts,), 1.0 / experts))
        self.register_buffer("peak", torch.zeros((), dtype=torch.long))

    def __len__(self) -> int:
        return self.index.numel()

    @property
    def bias(self) -> torch.Tensor:
        return -0.1 * (self.share * len(self) - 1)

    def observe(self, picks: torch.Tensor) -> None:
        counts = (picks.unsqueeze(-1) == self.index).sum((0, 1))
        self.peak.copy_(torch.maximum(self.peak, counts.amax()))
        self.share.mul_(self.momentum).add_(counts / picks.numel(), alpha=1 - self.momentum)


class DenseMoE(nn.Module):
    def __init__(self, dim: int = 16, experts: int = 4, k: int = 2):
        super().__init__()
        self.k = min(k, experts)
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, 2 * dim) for _ in range(experts))
        self.balance = LoadBalance(experts)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.gate(x) + self.balance.bias
        top, picks = scores.topk(self.k, dim=-1)
        self.balance.observe(picks)
        weights = torch.zeros_like(scores).scatter_(1, picks, top.softmax(-1))
        outputs = torch.stack([expert(x) for expert in self.experts], dim=1)
        return torch.einsum("te,ted->td", weights, outputs)


class Stack(nn.Module):
    def __init__(self, depth: int = 2, dim: int = 16):
        super().__init__()
        self.layers = nn.ModuleList(DenseMoE(dim) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x


def build(device):
    return Stack().to(device).eval(), (torch.randn(24, 16, device=device),)
