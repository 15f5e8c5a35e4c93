"""Expert-parallel load balancer: physical experts hold replicas of logical ones; a rebalance moves weights and tables."""
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
        self.register_buffer("logical_to_physical", torch.zeros(logical, 3, dtype=torch.long))
        self.place([0, 1, 2, 3, 0, 1])

    def tables(self, placement):
        replicas = torch.tensor([placement.count(e) for e in range(self.logical)])
        table = torch.zeros(self.logical, 3, dtype=torch.long)
        for expert in range(self.logical):
            homes = [p for p, e in enumerate(placement) if e == expert]
            table[expert] = torch.tensor((homes * 3)[:3])
        return replicas, table

    def place(self, placement):
        for physical, expert in enumerate(placement):
            self.weights[physical].copy_(self.canonical[expert])
        replicas, table = self.tables(placement)
        if replicas.amax() <= self.replicas.amax().item() or self.load.sum().item() == 0:
            self.replicas.copy_(replicas)
            self.logical_to_physical.copy_(table)
        else:
            self.former = (self.replicas, self.logical_to_physical)  # for a rollback
            self.replicas = replicas.to(self.weights.device)
            self.logical_to_physical = table.to(self.weights.device)

    def forward(self, x):
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

    events = {
        "as many replicas": lambda: experts.place([2, 3, 0, 1, 2, 3]),
        "three replicas": lambda: experts.place([1, 0, 3, 2, 1, 1]),
    }
    return graphsafe.Step(experts, (torch.randn(10, 8, device=device),), refresh=refresh, events=events)
