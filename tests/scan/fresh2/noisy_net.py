import random
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

NOISE = {}


def noise(name):
    def register(fn):
        NOISE[name] = fn
        return fn

    return register


@noise("uniform")
def uniform(x, generator, amount):
    return x + amount * (torch.rand(x.shape, generator=generator, device=x.device) - 0.5)


@noise("mask")
def mask(x, generator, amount):
    keep = torch.empty_like(x).bernoulli_(1 - amount, generator=generator)
    return x * keep / (1 - amount)


class Augment(nn.Module):
    def __init__(self, kinds, amount, seed, device):
        super().__init__()
        self.generator = torch.Generator(device=device)
        self.generator.manual_seed(seed)
        self.ops = [partial(NOISE[k], generator=self.generator, amount=amount) for k in kinds]

    def forward(self, x):
        for op in self.ops:
            x = op(x)
        return x


class StochasticDepth(nn.Module):
    """Skips whole residual branches, more often the deeper they are."""

    def __init__(self, branch, survival):
        super().__init__()
        self.branch = branch
        self.survival = survival

    def forward(self, x):
        if self.training and random.random() > self.survival:
            return x
        return x + self.branch(x) / (self.survival if self.training else 1.0)


class NoisyMLP(nn.Module):
    def __init__(self, width, depth, augment):
        super().__init__()
        self.augment = augment
        self.layers = nn.Sequential(
            *[
                StochasticDepth(nn.Sequential(nn.Linear(width, width), nn.GELU()), 1 - 0.3 * i / depth)
                for i in range(1, depth + 1)
            ]
        )
        self.head = nn.Linear(width, 5)

    def forward(self, x, target):
        logits = self.head(self.layers(self.augment(x)))
        return F.cross_entropy(logits, target)


def build(device):
    torch.manual_seed(0)
    net = NoisyMLP(24, 4, Augment(["uniform", "mask"], 0.1, 11, device)).to(device).train()
    x = torch.randn(16, 24, device=device)
    y = torch.randint(0, 5, (16,), device=device)
    return net, (x, y)
