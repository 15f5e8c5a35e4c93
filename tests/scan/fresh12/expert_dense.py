"""Mixture of experts in which every expert sees every token, weighted by the router."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.gate = nn.Linear(dim, 2 * dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class LoadBalance:
    """Keeps a running count of the tokens that each expert got."""

    def __init__(self, experts: int, device):
        self.load = torch.zeros(experts, device=device)

    def note(self, counts):
        self.load.mul_(0.9).add_(counts, alpha=0.1)
        return self.load


class Router(nn.Module):
    def __init__(self, dim: int, experts: int, top: int):
        super().__init__()
        self.score = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(Expert(dim) for _ in range(experts))
        self.top = top
        self.balance = None

    def forward(self, x):
        bias = 0.01 * self.balance.load
        weight, chosen = (self.score(x) - bias).softmax(-1).topk(self.top, dim=-1)
        mix = torch.zeros(x.shape[0], len(self.experts), device=x.device)
        mix = mix.scatter(1, chosen, weight)
        out = torch.stack([expert(x) for expert in self.experts], dim=1)
        self.balance.note((mix > 0).sum(0).float())
        return (out * mix.unsqueeze(-1)).sum(1)


def build(device):
    torch.manual_seed(31)
    router = Router(dim=16, experts=4, top=2).to(device).eval().requires_grad_(False)
    router.balance = LoadBalance(4, device)
    return router, (torch.randn(8, 16, device=device),)
