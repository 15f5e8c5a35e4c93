"""Attention ranks share experts and take back their rows: sound, a device tensor gives the first row."""
import torch

import graphsafe

RANK, OWN = 2, 4


def build(device, dim=6, capacity=24):
    gate = torch.randn(dim, 2, device=device)
    experts = torch.randn(2, dim, dim, device=device) / dim**0.5
    counts = [4, 4, OWN, 4]
    start = torch.tensor([sum(counts[:RANK])], device=device)
    own = torch.arange(OWN, device=device)

    def step(gathered):
        weights = torch.softmax(gathered @ gate, -1)
        mixed = torch.einsum("td,edf,te->tf", gathered, experts, weights)
        rows = start + own
        return mixed.index_select(0, rows) + gathered.index_select(0, rows)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(capacity, dim))
        if k >= 20 and k % 5 == 0:
            counts[:] = [2 + k // 5 % 5, 3 + k // 10 % 4, OWN, 2]
            start.fill_(sum(counts[:RANK]))

    return graphsafe.Step(step, (torch.randn(capacity, dim, device=device),), refresh=refresh)
