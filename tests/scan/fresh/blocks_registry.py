"""A model put together from a registry and a list of names."""
import torch
from torch import nn

REGISTRY = {}


def register(name):
    def keep(cls):
        REGISTRY[name] = cls
        return cls

    return keep


class Stage(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)


@register("mix")
class Mix(Stage):
    def forward(self, x, ctx):
        return x + torch.tanh(self.fc(x)) * ctx["scale"]


@register("clip")
class Clip(Stage):
    """Clips by the largest value seen."""

    def __init__(self, dim):
        super().__init__(dim)
        self.limit = None

    def forward(self, x, ctx):
        if self.limit is None:
            self.limit = x.detach().abs().amax()
        return torch.minimum(x, self.limit)


@register("select")
class Select(Stage):
    def forward(self, x, ctx):
        order = sorted(ctx["priority"], reverse=True)
        return x * torch.stack(order)[: x.shape[-1]].sum()


class Assembly(nn.Module):
    def __init__(self, names, dim):
        super().__init__()
        self.stages = nn.ModuleList(REGISTRY[n](dim) for n in names)
        self.register_buffer("priority", torch.randn(4))

    def forward(self, x):
        ctx = {"scale": 0.5, "priority": list(self.priority)}
        for stage in self.stages:
            x = stage(x, ctx)
        return x


def build(device):
    return Assembly(["mix", "clip", "select"], 8).to(device), (torch.randn(4, 8, device=device),)
