"""Mixture of experts, top-1 routing."""
import torch
import torch.nn.functional as F
from torch import nn


class CapacityMoE(nn.Module):
    def __init__(self, dim=32, hidden=48, n_experts=4, capacity=8):
        super().__init__()
        self.n, self.capacity = n_experts, capacity
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.w_in = nn.Parameter(torch.randn(n_experts, dim, hidden) / dim**0.5)
        self.w_out = nn.Parameter(torch.randn(n_experts, hidden, dim) / hidden**0.5)
        self.register_buffer("load_avg", torch.zeros(n_experts))
        self.register_buffer("overflow", torch.zeros((), dtype=torch.long))

    def dispatch(self, x):
        probs = (self.router(x) - 0.05 * self.load_avg).softmax(dim=-1)
        weight, chosen = probs.max(dim=-1)
        mine = F.one_hot(chosen, self.n)
        place = (mine.cumsum(0) - 1).gather(1, chosen.unsqueeze(1)).squeeze(1)
        fits = place < self.capacity
        self.load_avg.lerp_(mine.sum(0).to(x.dtype), 0.1)
        self.overflow.add_((~fits).sum())
        slot = torch.where(fits, chosen * self.capacity + place, self.n * self.capacity)
        return slot, weight * fits

    def forward(self, x):
        slot, weight = self.dispatch(x)
        table = x.new_zeros(self.n * self.capacity + 1, x.shape[1])
        table.index_copy_(0, slot, x)
        grouped = table[:-1].view(self.n, self.capacity, -1)
        y = torch.bmm(F.silu(torch.bmm(grouped, self.w_in)), self.w_out)
        flat = F.pad(y.flatten(0, 1), (0, 0, 0, 1))
        return x + flat.index_select(0, slot) * weight.unsqueeze(-1)


def build(device):
    torch.manual_seed(0)
    layer = CapacityMoE().to(device).requires_grad_(False)
    return layer, (torch.randn(16, 32, device=device),)
