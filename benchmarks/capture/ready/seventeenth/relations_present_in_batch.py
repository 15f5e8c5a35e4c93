"""Messages over a heterogeneous graph, one batch after another: faulty, only relations in the batch are computed."""
import torch

import graphsafe

RELATIONS = ("writes", "about", "cites")
NODES = 8


class HeteroBatch:
    def __init__(self, device):
        self.edges = {name: torch.full((2, 6), NODES, device=device) for name in RELATIONS}
        self.present = frozenset()

    def load(self, edges):
        self.present = frozenset(edges)
        for name, kept in self.edges.items():
            kept.copy_(edges[name] if name in edges else torch.full((2, 6), NODES))


def batch_of(k):
    names = RELATIONS if k >= 28 and k % 3 else RELATIONS[:2]
    return {name: torch.stack([torch.randint(NODES, (6,)), torch.randperm(NODES)[:6]]) for name in names}


def build(device, dim=5):
    batch = HeteroBatch(device)
    batch.load(batch_of(0))
    weights = {name: torch.randn(dim, dim, device=device) / dim**0.5 for name in RELATIONS}

    def step(features):
        padded = torch.cat([features, torch.zeros_like(features[:1])])
        received = torch.zeros_like(padded)
        for name in RELATIONS:
            if name not in batch.present:
                continue
            source, target = batch.edges[name].unbind(0)
            received.index_add_(0, target, padded.index_select(0, source) @ weights[name])
        return torch.tanh(features + received[:NODES])

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(NODES, dim))
        batch.load(batch_of(k))

    return graphsafe.Step(step, (torch.randn(NODES, dim, device=device),), refresh=refresh)
