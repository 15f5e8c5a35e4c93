"""Disaggregated prefill: each layer copies its new keys into an outbox, which the engine ships between two steps."""
import torch

import graphsafe


class Connector:
    def __init__(self, device, layers, rows, dim):
        self.remote = torch.zeros(layers, rows, dim, device=device)
        self.outbox = torch.zeros(layers, rows, dim, device=device)
        self.pending = []

    def save_layer(self, index, keys):
        self.outbox[index].copy_(keys)
        self.pending.append(f"layer {index}")

    def ship(self):
        self.pending.clear()
        self.remote.lerp_(self.outbox, 0.5)


class Engine:
    def __init__(self, device, layers=3, rows=4, dim=8):
        self.weights = [torch.randn(dim, dim, device=device) / 3 for _ in range(layers)]
        self.connector = Connector(device, layers, rows, dim)

    def step(self, hidden):
        for index, weight in enumerate(self.weights):
            keys = torch.tanh(hidden @ weight)
            self.connector.save_layer(index, keys)
            hidden = hidden + keys
        return hidden + self.connector.remote.sum(0)


def build(device):
    engine = Engine(device)
    engine.step(torch.randn(4, 8, device=device))
    engine.connector.ship()

    def refresh(args, kwargs, k):
        if k % 5 == 4:
            engine.connector.ship()
        args[0].copy_(torch.randn(4, 8))

    return graphsafe.Step(engine.step, (torch.randn(4, 8, device=device),), refresh=refresh)
