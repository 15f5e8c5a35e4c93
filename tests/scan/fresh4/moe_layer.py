"""Token routing over a handful of experts, with a running load balance."""
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
    """Keeps a smoothed share of tokens per expert and turns it into a routing bias."""

    def __init__(self, experts: int, momentum: float = 0.9):
        super().__init__()
        self.experts, self.momentum = experts, momentum
        self.register_buffer("share", torch.full((experts,), 1.0 / experts))
        self.register_buffer("peak", torch.zeros((), dtype=torch.long))

    @property
    def bias(self) -> torch.Tensor:
        return -0.1 * (self.share * self.experts - 1)

    def observe(self, picks: torch.Tensor) -> torch.Tensor:
        counts = torch.bincount(picks.flatten(), minlength=self.experts)
        fresh = counts / picks.numel()
        self.share = self.momentum * self.share + (1 - self.momentum) * fresh
        return counts


class MoE(nn.Module):
    def __init__(self, dim: int = 16, experts: int = 4, k: int = 2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, 2 * dim) for _ in range(experts))
        self.balance = LoadBalance(experts)

    def route(self, x: torch.Tensor):
        scores = self.gate(x) + self.balance.bias
        top, picks = scores.topk(self.k, dim=-1)
        return top.softmax(-1), picks

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, picks = self.route(x)
        counts = self.balance.observe(picks)
        self.balance.peak.copy_(max(counts))

        order = picks.flatten().argsort()
        gathered = x[order.div(self.k, rounding_mode="floor")]
        parts = gathered.split(counts.tolist())
        mixed = torch.cat([expert(part) for expert, part in zip(self.experts, parts)])

        flat = torch.empty_like(mixed).index_copy_(0, order, mixed)
        return (flat.view(x.shape[0], self.k, -1) * weights.unsqueeze(-1)).sum(1)


class Stack(nn.Module):
    def __init__(self, depth: int = 2, dim: int = 16):
        super().__init__()
        self.layers = nn.ModuleList(MoE(dim) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x


def build(device):
    model = Stack().to(device).eval()
    return model, (torch.randn(24, 16, device=device),)
