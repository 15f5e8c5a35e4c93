"""Click model over bags of sparse features: EmbeddingBag with offsets and weights, crosses by factorisation."""
import torch
import torch.nn as nn

import graphsafe

ROWS, IDS, FIELDS = 24, 120, 3


class FactorisationMachine(nn.Module):
    def __init__(self, features=1000, width=12):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(features, width, mode="sum") for _ in range(FIELDS))
        self.linear = nn.EmbeddingBag(features, 1, mode="sum")
        self.deep = nn.Sequential(nn.Linear(FIELDS * width, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("calibration", torch.tensor([1.0, 0.0]))

    def forward(self, ids, offsets, weights):
        parts, first = [], 0.0
        for field, bag in enumerate(self.bags):
            parts.append(bag(ids[field], offsets[field], per_sample_weights=weights[field]))
            first = first + self.linear(ids[field], offsets[field], per_sample_weights=weights[field])
        stacked = torch.stack(parts)
        crosses = 0.5 * (stacked.sum(0).square() - stacked.square().sum(0)).sum(-1, keepdim=True)
        logit = first + crosses + self.deep(torch.cat(parts, 1))
        self.calibration[1:].lerp_(logit.mean().view(1), 0.05)
        return (logit * self.calibration[0] - self.calibration[1]).sigmoid(), crosses


def offsets():
    inner = (torch.randperm(IDS - 1)[: ROWS - 1] + 1).sort().values
    return torch.cat([torch.zeros(1, dtype=torch.long), inner])


def build(device):
    model = FactorisationMachine().to(device).eval().requires_grad_(False)
    ids = torch.randint(1000, (FIELDS, IDS), device=device)
    starts = torch.stack([offsets() for _ in range(FIELDS)]).to(device)
    weights = torch.rand(FIELDS, IDS, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(1000, (FIELDS, IDS)))
        args[1].copy_(torch.stack([offsets() for _ in range(FIELDS)]))
        args[2].copy_(torch.rand(FIELDS, IDS))

    return graphsafe.Step(model, (ids, starts, weights), {}, refresh=refresh)
