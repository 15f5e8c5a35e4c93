"""LoRA by masks: each slot's delta is scaled by alpha / rank, which the loader keeps as a number beside the weights."""
import torch

import graphsafe


class Slot:
    def __init__(self, device, dim, rank):
        self.a = torch.randn(rank, dim, device=device) / 4
        self.b = torch.randn(dim, rank, device=device) / 4
        self.alpha, self.rank = 2.0 * rank, rank

    @property
    def scaling(self):
        return self.alpha / self.rank

    def load(self, alpha):
        self.a.copy_(torch.randn(self.a.shape) / 4)
        self.b.copy_(torch.randn(self.b.shape) / 4)
        self.alpha = alpha


class Layer:
    def __init__(self, device, dim=12, rank=4, slots=3):
        self.weight = torch.randn(dim, dim, device=device) / 4
        self.slots = [Slot(device, dim, rank) for _ in range(slots)]

    def forward(self, x, which):
        out = x @ self.weight.T
        for index, slot in enumerate(self.slots):
            mine = (which == index).unsqueeze(1)
            delta = (x @ slot.a.T) @ slot.b.T * slot.scaling
            out = out + torch.where(mine, delta, torch.zeros_like(delta))
        return torch.tanh(out)


class Server:
    def __init__(self, device):
        self.layers = [Layer(device) for _ in range(2)]

    def step(self, x, which):
        for layer in self.layers:
            x = layer.forward(x, which)
        return x

    def replace_same_alpha(self):
        for layer in self.layers:
            layer.slots[0].load(8.0)

    def replace_other_alpha(self):
        for layer in self.layers:
            layer.slots[1].load(16.0)


def build(device):
    server = Server(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 12))
        args[1].copy_(torch.randint(0, 3, (6,)))

    which = torch.zeros(6, dtype=torch.long, device=device)
    events = {"adapter of the same alpha": server.replace_same_alpha, "adapter of another alpha": server.replace_other_alpha}
    return graphsafe.Step(server.step, (torch.randn(6, 12, device=device), which), refresh=refresh, events=events)
