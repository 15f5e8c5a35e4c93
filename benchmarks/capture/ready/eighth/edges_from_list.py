"""Feature bucketing: the edges are a list that the feature store replaces now and then; the step stages them."""
import torch
from torch import nn

import graphsafe


class Features(nn.Module):
    def __init__(self, edges, width):
        super().__init__()
        self.edges = list(edges)
        self.staging = torch.zeros(len(edges), pin_memory=True)
        self.register_buffer("on_device", torch.zeros(len(edges)))
        self.table = nn.Embedding(len(edges) + 1, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        self.staging.copy_(torch.tensor(self.edges))  # <-B
        self.on_device.copy_(self.staging, non_blocking=True)  # <-A
        return self.head(self.table(torch.bucketize(x, self.on_device)).sum(1))


class Store:
    """Publishes new quantiles once in nine requests."""

    def __init__(self, model):
        self.model, self.shift = model, 0.0

    def publish(self):
        self.shift = 0.4 - self.shift
        self.model.edges[:] = [e / 2 + self.shift for e in range(-4, 5)]


def build(device, batch=16, columns=4):
    model = Features([e / 2 for e in range(-4, 5)], 8).to(device).eval().requires_grad_(False)
    store = Store(model)
    x = torch.randn(batch, columns).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, columns))
        if k % 9 == 8:
            store.publish()

    return graphsafe.Step(model, (x,), refresh=refresh)
