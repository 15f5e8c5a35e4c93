"""Top-k routing and the bookkeeping of expert load."""
import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, width: int, experts: int, picks: int = 2):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = experts
        self.picks = picks
        self.register_buffer("load", torch.zeros(experts))

    def forward(self, x: torch.Tensor):
        odds = self.gate(x).softmax(-1)
        weight, choice = odds.topk(self.picks, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        share = odds.mean(0)
        self.load.mul_(0.99).add_(share, alpha=0.01)
        return weight, choice


def by_expert(choice: torch.Tensor, experts: int):
    """Rows of the flattened choice in expert order, and how many each expert has."""
    flat = choice.flatten()
    order = flat.argsort(stable=True)
    sizes = (flat[:, None] == torch.arange(experts, device=flat.device)).sum(0)
    return order, sizes
