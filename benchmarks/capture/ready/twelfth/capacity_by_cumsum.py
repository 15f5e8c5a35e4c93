"""Mixture of experts with a capacity: places are counted by cumsum, overflow goes to a row that is thrown away."""

import torch

import graphsafe


class Moe(torch.nn.Module):
    def __init__(self, width=8, experts=4, capacity=5):
        super().__init__()
        self.gate = torch.nn.Linear(width, experts, bias=False)
        self.weight = torch.nn.Parameter(torch.randn(experts, width, width) / 3)
        self.experts, self.capacity = experts, capacity

    def forward(self, x):
        share, expert = self.gate(x).softmax(-1).max(-1)
        place = torch.nn.functional.one_hot(expert, self.experts).cumsum(0).gather(1, expert[:, None]).squeeze(1) - 1
        slot = torch.where(place < self.capacity, expert * self.capacity + place, self.experts * self.capacity)
        room = x.new_zeros(self.experts * self.capacity + 1, x.shape[-1]).index_copy(0, slot, x)
        out = torch.bmm(room[:-1].view(self.experts, self.capacity, -1), self.weight).flatten(0, 1)
        out = torch.cat([out, torch.zeros_like(out[:1])])
        return x + share[:, None] * out[slot] * (place < self.capacity)[:, None]


def build(device):
    moe = Moe().to(device).eval().requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 8) + (k % 3))

    return graphsafe.Step(moe, (torch.randn(16, 8, device=device),), refresh=refresh)
