"""Sharded weights are gathered before each step: every parameter's `.data` is set to a view of the one flat buffer."""
import math

import torch
from torch import nn

import graphsafe


class Unit:
    """The flat weights of a module, as a sharding engine keeps them: parameters are views that are made again."""

    def __init__(self, module, device):
        self.module = module.to(device)
        self.places, at = [], 0
        for p in module.parameters():
            self.places.append((p, at, p.shape))
            at += math.prod(p.shape)
        self.flat = torch.cat([p.detach().flatten() for p, _, _ in self.places])
        self.shards = self.flat.cpu().clone().chunk(4)

    def gather(self, k):
        for i, shard in enumerate(self.shards):
            if k % 4 == i:
                shard.mul_(0.99).add_(0.002 * math.sin(k))
        self.flat.copy_(torch.cat(self.shards))
        self.use_views()

    def use_views(self):
        for p, at, shape in self.places:
            p.data = self.flat[at : at + math.prod(shape)].view(shape)


def build(device):
    unit = Unit(nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 2)), device)
    unit.use_views()
    unit.module.requires_grad_(False)

    def refresh(args, kwargs, k):
        unit.gather(k)
        args[0].copy_(torch.randn(8, 12))

    return graphsafe.Step(unit.module, (torch.randn(8, 12, device=device),), refresh=refresh)
