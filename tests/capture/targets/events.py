"""A step whose engine reloads, grows and collects between replays, well and badly."""

import gc

import torch
from torch import nn

import graphsafe


class Engine(nn.Module):
    def __init__(self, device):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8).to(device)
        self.scale = torch.ones(8, device=device)

    def forward(self, x):
        return self.linear(x) * self.scale

    def reload(self):
        with torch.no_grad():
            self.linear.weight.copy_(torch.randn_like(self.linear.weight))

    def replace(self):
        self.linear.weight = nn.Parameter(torch.randn_like(self.linear.weight))

    def reload_the_same(self):
        self.scale = torch.ones(8, device=self.scale.device)

    def grow(self):
        self.scale = torch.full_like(self.scale, 2.0)


def sound(device):
    engine = Engine(device)
    events = {"reload": engine.reload, "gc": gc.collect}
    return graphsafe.Step(engine, (torch.randn(4, 8, device=device),), events=events)


def stale(device):
    engine = Engine(device)
    events = {"gc": gc.collect, "replace": engine.replace, "grow": engine.grow}
    return graphsafe.Step(engine, (torch.randn(4, 8, device=device),), events=events)


def stale_with_equal_values(device):
    engine = Engine(device).requires_grad_(False)  # else autograd would hold the memory that the event lets go of
    events = {"reload": engine.reload_the_same, "gc": gc.collect}
    return graphsafe.Step(engine, (torch.randn(4, 8, device=device),), events=events)


def failing(device):
    engine = Engine(device)
    return graphsafe.Step(engine, (torch.randn(4, 8, device=device),), events={"fail": lambda: 1 / 0})


class Attention(nn.Module):
    """Walks the cache page by page in short contexts, and at once in long ones: only the host knows the length."""

    def __init__(self, device):
        super().__init__()
        torch.manual_seed(0)
        self.cache = torch.randn(512, 8, device=device)
        self.longest = 1

    def forward(self, x):
        pages = 128 if self.longest < 32 else 1
        scores = [x @ page.T for page in self.cache.chunk(pages)]
        return torch.cat(scores, dim=-1)

    def lengthen(self):
        self.longest = 512


def pages(device):
    step = Attention(device)
    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), events={"gc": gc.collect, "long": step.lengthen})
