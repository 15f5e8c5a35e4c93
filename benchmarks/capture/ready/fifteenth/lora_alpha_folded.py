"""LoRA by masks: the loader folds alpha / rank into B and keeps the number for the listing of adapters only."""
import torch

import graphsafe


class Slot:
    def __init__(self, device, dim, rank):
        self.a = torch.randn(rank, dim, device=device) / 4
        self.b = torch.randn(dim, rank, device=device) / 4
        self.alpha, self.rank = 2.0 * rank, rank
        self.b.mul_(self.scaling)

    @property
    def scaling(self):
        return self.alpha / self.rank

    def load(self, alpha):
        self.alpha = alpha
        self.a.copy_(torch.randn(self.a.shape) / 4)
        self.b.copy_(torch.randn(self.b.shape) / 4 * self.scaling)


class Layer:
    def __init__(self, device, dim=12, rank=4, slots=3):
        self.weight = torch.randn(dim, dim, device=device) / 4
        self.slots = [Slot(device, dim, rank) for _ in range(slots)]

    def forward(self, x, which):
        out = x @ self.weight.T
        for index, slot in enumerate(self.slots):
            mine = (which == index).unsqueeze(1)
            delta = (x @ slot.a.T) @ slot.b.T
            out = out + torch.where(mine, delta, torch.zeros_like(delta))
        return torch.tanh(out)


class Server:
    def __init__(self, device):
        self.layers = [Layer(device) for _ in range(2)]
        self.listing = {}

    def step(self, x, which):
        for depth, layer in enumerate(self.layers):
            self.listing[depth] = [round(slot.scaling, 3) for slot in layer.slots]
            x = layer.forward(x, which)
        return x

    def replace(self, index, alpha):
        for layer in self.layers:
            layer.slots[index].load(alpha)


def build(device):
    server = Server(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 12))
        args[1].copy_(torch.randint(0, 3, (6,)))

    which = torch.zeros(6, dtype=torch.long, device=device)
    events = {"same alpha": lambda: server.replace(0, 8.0), "another alpha": lambda: server.replace(1, 16.0)}
    return graphsafe.Step(server.step, (torch.randn(6, 12, device=device), which), refresh=refresh, events=events)
