"""Low-rank adapters on one linear layer; the active one is known by its name."""

import torch
from torch import nn

import graphsafe


class AdaptedLinear(nn.Module):
    def __init__(self, width, rank=4):
        super().__init__()
        self.base = nn.Linear(width, width)
        self.active = "summary"
        for name in ("summary", "chat"):
            setattr(
                self,
                f"lora_{name}",
                nn.Sequential(nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)),
            )

    def set_adapter(self, name):
        if not hasattr(self, f"lora_{name}"):
            raise ValueError(name)
        self.active = name

    def forward(self, x):
        return self.base(x) + getattr(self, f"lora_{self.active}")(x)


def build(device):
    layer = AdaptedLinear(16).to(device).eval().requires_grad_(False)
    events = {
        "same adapter": lambda: layer.set_adapter("summary"),
        "chat request": lambda: layer.set_adapter("chat"),
    }

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, 16))

    return graphsafe.Step(layer, (torch.randn(3, 16, device=device),), refresh=refresh, events=events)
