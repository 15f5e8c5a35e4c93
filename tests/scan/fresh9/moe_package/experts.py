"""Experts and the router that chooses among them."""

import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)

    def forward(self, x):
        weight, index = torch.softmax(self.gate(x), dim=-1).max(dim=-1)
        return weight, index


class Load:
    """Tokens seen by each expert."""

    def __init__(self, experts, device):
        self.counts = torch.zeros(experts, dtype=torch.long, device=device)

    def record(self, index):
        self.counts += torch.bincount(index, minlength=self.counts.numel())


class Bank(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x, weight, index):
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            chosen = index == number
            out[chosen] = expert(x[chosen]) * weight[chosen].unsqueeze(-1)
        return out
