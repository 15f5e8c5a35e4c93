"""Tabular scoring: a builder picks columns and standardises them."""

import torch
from torch import nn


class Standardizer(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = mean
        self.std = std

    def forward(self, x):
        mean = self.mean.to(x.device)
        return (x - mean) / self.std


class ColumnPick(nn.Module):
    def __init__(self, names, wanted):
        super().__init__()
        self.columns = [names.index(name) for name in wanted]

    def forward(self, x):
        return x[:, self.columns]


class ScorerBuilder:
    def __init__(self, names):
        self.names = names
        self.parts = []
        self.width = len(names)

    def pick(self, *wanted):
        self.parts.append(ColumnPick(self.names, wanted))
        self.width = len(wanted)
        return self

    def standardize(self, std=1.0):
        self.parts.append(Standardizer(torch.zeros(self.width), std))
        return self

    def linear(self, out):
        self.parts.append(nn.Linear(self.width, out))
        self.width = out
        return self

    def finish(self, device):
        model = nn.Sequential(*self.parts)
        return model.to(device).eval().requires_grad_(False)


NAMES = ["age", "balance", "tenure", "clicks", "visits"]


def build(device):
    builder = ScorerBuilder(NAMES).pick("age", "clicks", "visits")
    model = builder.standardize(2.0).linear(4).linear(1).finish(device)
    return model, (torch.randn(7, len(NAMES), device=device),)
