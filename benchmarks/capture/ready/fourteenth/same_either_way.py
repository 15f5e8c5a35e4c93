"""A server in two modes: names, tags, priorities and the path through the code change, the tensors' operations do not."""
import dataclasses

import torch
from torch import nn

import graphsafe


@dataclasses.dataclass(frozen=True)
class Mode:
    name: str
    slope: float
    repeats: int
    audit: bool


CALM = Mode("calm", 0.1, 2, False)
BUSY = Mode("busy", 1 / 10, 1 + 1, True)


class Server(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.mode, self.audits = CALM, {}

    def forward(self, x):
        return self.busy(x) if self.mode.audit else self.calm(x)

    def calm(self, x):
        for _ in range(self.mode.repeats):
            x = nn.functional.leaky_relu(self.layer(x), self.mode.slope)
        return x

    def busy(self, x):
        depth = 0
        while depth < self.mode.repeats:
            x = nn.functional.linear(x, self.layer.weight, self.layer.bias)
            x = nn.functional.leaky_relu(x, negative_slope=self.mode.slope)
            depth += 1
        self.audits[self.mode.name] = self.audits.get(self.mode.name, 0) + depth
        return x


def build(device):
    server = Server().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        server.mode = BUSY if k % 30 > 20 else dataclasses.replace(CALM, name=f"calm {k}")
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(server, (torch.randn(4, 16, device=device),), refresh=refresh)
