"""A switch layer whose experts live in physical slots. The router speaks logical expert numbers."""
import torch
from torch import nn


class SwitchLayer(nn.Module):
    def __init__(self, dim: int, hidden: int, experts: int, capacity: int):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.w_up = nn.Parameter(torch.randn(experts, dim, hidden) * dim**-0.5)
        self.w_down = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)
        self.register_buffer("slot_of", torch.arange(experts))
        self.register_buffer("load", torch.zeros(experts))
        self.capacity = capacity

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, logical = self.router(x).softmax(-1).max(-1)
        slot = self.slot_of[logical]
        onehot = torch.nn.functional.one_hot(logical, self.load.numel())
        self.load.copy_(onehot.sum(0))
        order = (onehot.cumsum(0) * onehot).sum(-1) - 1
        gate = torch.where(order < self.capacity, gate, 0.0)
        up = torch.bmm(x[:, None], self.w_up[slot]).relu()
        return x + gate[:, None] * torch.bmm(up, self.w_down[slot])[:, 0]


class Stack(nn.Module):
    def __init__(self, depth: int, **sizes):
        super().__init__()
        self.layers = nn.ModuleList(SwitchLayer(**sizes) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
