"""Top-2 mixture of experts with a fixed capacity, dispatched through slots."""

import torch
import torch.nn.functional as F
from torch import nn


class Router(nn.Module):
    def __init__(self, width: int, experts: int, top: int = 2):
        super().__init__()
        self.experts, self.top = experts, top
        self.score = nn.Linear(width, experts, bias=False)
        self.register_buffer("load", torch.zeros(experts))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights, chosen = self.score(x).softmax(-1).topk(self.top, dim=-1)
        hot = F.one_hot(chosen, num_classes=self.experts).sum(1)
        self.load.mul_(0.9).add_(hot.sum(0), alpha=0.1)
        return weights / weights.sum(-1, keepdim=True), chosen


class SlottedExperts(nn.Module):
    """Each expert has `capacity` slots; tokens over the capacity go to a spare row that is dropped."""

    def __init__(self, width: int, hidden: int, experts: int, capacity: int):
        super().__init__()
        self.router = Router(width, experts)
        self.capacity = capacity
        self.up = nn.Parameter(torch.randn(experts, width, hidden) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) / hidden**0.5)

    def slots(self, chosen: torch.Tensor) -> torch.Tensor:
        flat = chosen.reshape(-1)
        hot = F.one_hot(flat, num_classes=self.router.experts)
        rank = (hot.cumsum(0) - 1).gather(1, flat.unsqueeze(1)).squeeze(1)
        spare = self.router.experts * self.capacity
        return torch.where(rank < self.capacity, flat * self.capacity + rank, spare)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens, width = x.shape
        weights, chosen = self.router(x)
        slots = self.slots(chosen)
        experts = self.router.experts
        room = x.new_zeros(experts * self.capacity + 1, width)
        room.index_copy_(0, slots, x.repeat_interleave(self.router.top, 0))
        room[-1:] = 0.0
        hidden = F.silu(torch.bmm(room[:-1].view(experts, self.capacity, width), self.up))
        done = F.pad(torch.bmm(hidden, self.down).view(-1, width), (0, 0, 0, 1))
        picked = done.index_select(0, slots).view(tokens, self.router.top, width)
        return x + (picked * weights.unsqueeze(-1)).sum(1)


def build(device):
    torch.manual_seed(8)
    layer = SlottedExperts(16, 32, experts=4, capacity=12).to(device).requires_grad_(False)
    return layer, (torch.randn(16, 16, device=device),)
