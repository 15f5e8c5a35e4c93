"""Recency features over event stamps in milliseconds; the floor of the stamps comes from a reloaded JSON policy."""
import json

import torch
from torch import nn

import graphsafe

POLICIES = ['{"floor": 0, "rate": 0.001}', '{"floor": 0.0, "rate": 0.001}']  # the second came through another service


class Recency(nn.Module):
    def __init__(self, events, width):
        super().__init__()
        self.register_buffer("now", torch.tensor(1_763_000_000_000))
        self.mix = nn.Linear(events, width)
        self.policy = json.loads(POLICIES[0])

    def forward(self, stamps):
        kept = torch.clamp(stamps, min=self.policy["floor"])  # <-A
        seconds = (self.now - kept) * self.policy["rate"]
        return self.mix(torch.log1p(seconds))


def build(device, batch=4, events=12, width=16):
    model = Recency(events, width).to(device).eval().requires_grad_(False)
    draw = lambda: 1_763_000_000_000 - torch.randint(1, 90_000, (batch, events))
    stamps = draw().to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(draw())
        model.policy = json.loads(POLICIES[k % 8 == 7])  # <-B

    return graphsafe.Step(model, (stamps,), refresh=refresh)
