import torch
from torch import nn

from .dispatch import assign, gather, scatter


class DenseExperts(nn.Module):
    def __init__(self, experts: int, dim: int, hidden: int):
        super().__init__()
        self.up = nn.Parameter(torch.randn(experts, dim, hidden) * dim**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)

    def forward(self, boxes: torch.Tensor) -> torch.Tensor:
        return torch.bmm(nn.functional.gelu(torch.bmm(boxes, self.up)), self.down)


class FixedCapacityBlock(nn.Module):
    def __init__(self, dim: int, hidden: int, experts: int, capacity: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = DenseExperts(experts, dim, hidden)
        self.n, self.capacity = experts, capacity
        self.register_buffer("load", torch.zeros(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        weight, chosen = self.gate(h).softmax(-1).max(-1)
        plan = assign(chosen, self.n, self.capacity)
        self.load.mul_(0.9).add_(plan.load, alpha=0.1)
        y = gather(self.experts(scatter(h, plan, self.n, self.capacity)), plan)
        return x + y * weight[:, None]


def build(device):
    torch.manual_seed(1)
    block = FixedCapacityBlock(12, 24, 4, 6).to(device).requires_grad_(False)
    return block, (torch.randn(16, 12, device=device),)
