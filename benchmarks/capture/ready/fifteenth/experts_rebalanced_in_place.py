"""Expert-parallel load balancer whose tables have room for the largest number of replicas and are written in place."""
import torch

import graphsafe


class Experts(torch.nn.Module):
    def __init__(self, dim=8, logical=4, physical=6):
        super().__init__()
        self.logical, self.physical = logical, physical
        self.register_buffer("canonical", torch.randn(logical, dim, dim) / dim**0.5)
        self.register_buffer("weights", torch.zeros(physical, dim, dim))
        self.router = torch.nn.Linear(dim, logical, bias=False)
        self.register_buffer("load", torch.zeros(logical))
        self.register_buffer("replicas", torch.ones(logical, dtype=torch.long))
        self.register_buffer("logical_to_physical", torch.zeros(logical, physical, dtype=torch.long))
        self.placements = []
        self.passes = 0
        self.place([0, 1, 2, 3, 0, 1])

    def place(self, placement):
        self.placements.append(placement)
        for physical, expert in enumerate(placement):
            self.weights[physical].copy_(self.canonical[expert])
        table = torch.zeros(self.logical, self.physical, dtype=torch.long)
        for expert in range(self.logical):
            homes = [p for p, e in enumerate(placement) if e == expert]
            table[expert, : len(homes)] = torch.tensor(homes)
        self.replicas.copy_(torch.tensor([placement.count(e) for e in range(self.logical)]))
        self.logical_to_physical.copy_(table)

    def forward(self, x):
        self.passes += 1
        gates, chosen = torch.softmax(self.router(x), -1).max(-1)
        self.load.mul_(0.9).scatter_add_(0, chosen, torch.ones_like(gates))
        replica = torch.arange(len(x), device=x.device) % self.replicas.index_select(0, chosen)
        home = self.logical_to_physical.index_select(0, chosen).gather(1, replica.unsqueeze(1)).squeeze(1)
        out = torch.bmm(self.weights.index_select(0, home), x.unsqueeze(-1)).squeeze(-1)
        return x + gates.unsqueeze(1) * out


def build(device):
    experts = Experts().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(10, 8))
        if k % 40 == 39:  # a dashboard reads the load
            experts.load.tolist()

    events = {
        "as many replicas": lambda: experts.place([2, 3, 0, 1, 2, 3]),
        "three replicas": lambda: experts.place([1, 0, 3, 2, 1, 1]),
    }
    return graphsafe.Step(experts, (torch.randn(10, 8, device=device),), refresh=refresh, events=events)
