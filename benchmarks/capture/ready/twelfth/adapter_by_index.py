"""Low-rank adapters in one stack. A name is turned into an index by the loop; the kernel selects by it."""

import torch
from torch import nn

import graphsafe


class AdaptedLinear(nn.Module):
    names = ("summary", "chat", "code")

    def __init__(self, width, rank=4):
        super().__init__()
        self.base = nn.Linear(width, width)
        self.down = nn.Parameter(torch.randn(3, width, rank) / 4)
        self.up = nn.Parameter(torch.randn(3, rank, width) / 4)
        self.register_buffer("choice", torch.zeros(1, dtype=torch.long))
        self.active = "summary"

    def set_adapter(self, name):
        self.active = name
        self.choice.fill_(self.names.index(name))

    def forward(self, x):
        down, up = (w.index_select(0, self.choice)[0] for w in (self.down, self.up))
        return self.base(x) + x @ down @ up


def build(device):
    layer = AdaptedLinear(16).to(device).eval().requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, 16))
        layer.set_adapter(layer.names[k // 7 % 3])

    events = {"chat request": lambda: layer.set_adapter("chat")}
    return graphsafe.Step(layer, (torch.randn(3, 16, device=device),), refresh=refresh, events=events)
