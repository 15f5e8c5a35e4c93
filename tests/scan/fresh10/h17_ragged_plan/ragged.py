"""Pooling over ragged sequences packed into one buffer, split-K style."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Plan:
    owner: torch.Tensor
    valid: torch.Tensor
    inv_count: torch.Tensor


class RaggedPool(nn.Module):
    def __init__(self, dim=16, capacity=64, batch=4):
        super().__init__()
        self.batch = batch
        self.score = nn.Linear(dim, 1)
        self.value = nn.Linear(dim, dim)
        self.register_buffer("slots", torch.arange(capacity))
        self.register_buffer("pooled", torch.zeros(batch, dim))
        self.plan = None

    def make_plan(self, lengths):
        ends = lengths.cumsum(0)
        owner = torch.searchsorted(ends, self.slots, right=True)
        valid = self.slots < ends[-1:]
        return Plan(owner.clamp_max(self.batch - 1), valid, 1.0 / lengths.clamp_min(1))

    def begin_forward(self, lengths):
        if self.plan is None:
            self.plan = self.make_plan(lengths)
        return self.plan

    def forward(self, packed, lengths):
        plan = self.begin_forward(lengths)
        gate = torch.sigmoid(self.score(packed)) * plan.valid.unsqueeze(1)
        weighted = gate * self.value(packed)
        self.pooled.zero_().index_add_(0, plan.owner, weighted)
        return self.pooled * plan.inv_count.unsqueeze(1)


def build(device):
    torch.manual_seed(8)
    pool = RaggedPool().to(device).eval().requires_grad_(False)
    packed = torch.randn(64, 16, device=device)
    lengths = torch.tensor([10, 20, 5, 15], device=device)
    return pool, (packed, lengths)
