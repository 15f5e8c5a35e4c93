"""Mixture of experts with a loop over the experts that got tokens."""
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
        self.load = 0.9 * self.load + 0.1 * counts
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
        counts = F.one_hot(chosen, len(self.experts)).sum((0, 1)).float()
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == index)
            out.index_add_(0, row, expert(x[row]) * weight[row, slot].unsqueeze(1))
        self.balance.note(counts)
        return out


def build(device):
    torch.manual_seed(31)
    router = Router(dim=16, experts=4, top=2).to(device).eval().requires_grad_(False)
    router.balance = LoadBalance(4, device)
    return router, (torch.randn(8, 16, device=device),)
