"""Several heads are returned as a view of a dict: faulty, one is scaled by a float of the loop."""
import torch
from torch import nn

import graphsafe


class Tasks(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(dim, 3) for name in ("depth", "pose", "flow")})
        self.gain = 1.0

    def forward(self, x):
        found = {name: head(x) for name, head in self.heads.items()}
        shared = sum(one.square().mean() for one in found.values())
        found["flow"] = found["flow"] * self.gain
        return shared, found.values()


def build(device):
    model = Tasks().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(5, 8))
        model.gain = 1.0 + min(k // 10, 5)

    return graphsafe.Step(model, (torch.randn(5, 8, device=device),), refresh=refresh)
