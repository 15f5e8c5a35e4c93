"""Split decoding of attention by a plan of tiles: sound, the builder copies into the tensors of its named tuple."""
from typing import NamedTuple

import torch

import graphsafe


class TilePlan(NamedTuple):
    starts: torch.Tensor
    ends: torch.Tensor


class PlanBuilder:
    tiles = 4

    def __init__(self, device):
        self.device = device
        self.plan = self.split(20)

    def split(self, length):
        width = -(-length // self.tiles)
        starts = torch.arange(self.tiles) * width
        ends = (starts + width).clamp(max=length)
        return TilePlan(starts.to(self.device), ends.to(self.device))

    def replan(self, length):
        for kept, new in zip(self.plan, self.split(length), strict=True):
            kept.copy_(new)


def build(device, slots=96, dim=8):
    builder = PlanBuilder(device)
    keys, values = torch.randn(slots, dim, device=device), torch.randn(slots, dim, device=device)
    slot_numbers = torch.arange(slots, device=device)

    def step(query):
        plan = builder.plan
        inside = (slot_numbers >= plan.starts.unsqueeze(1)) & (slot_numbers < plan.ends.unsqueeze(1))
        scores = (keys @ query).expand(len(plan.starts), -1).masked_fill(~inside, -1e9)
        weights = torch.softmax(torch.logsumexp(scores, -1), 0)
        return weights @ (torch.softmax(scores, -1) @ values)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(dim))
        length = 20 + k % 70
        if length % 8 == 0:
            builder.replan(length)

    return graphsafe.Step(step, (torch.randn(dim, device=device),), refresh=refresh)
