"""A KIVI cache with a residual of full precision: a device length says where a quantised group is stored."""
import torch

import graphsafe


class KiviCache:
    __slots__ = ("codes", "group", "length", "residual", "scale")

    def __init__(self, device, groups=4, group=8, dim=8):
        self.codes = torch.zeros(groups, group, dim, device=device)
        self.scale = torch.zeros(groups, 1, dim, device=device)
        self.residual = torch.zeros(group, dim, device=device)
        self.group = group
        self.length = torch.zeros(1, dtype=torch.long, device=device)

    def append(self, key):
        place, full = self.length // self.group, self.length % self.group
        self.residual.index_copy_(0, full, key.unsqueeze(0))
        self.length.add_(1)
        ready = full == self.group - 1
        scale = self.residual.abs().amax(0, keepdim=True).clamp(min=1e-6) / 7
        row = place % len(self.codes)
        codes = torch.where(ready, torch.round(self.residual / scale), self.codes.index_select(0, row)[0])
        self.codes.index_copy_(0, row, codes.unsqueeze(0))
        kept = torch.where(ready, scale, self.scale.index_select(0, row)[0])
        self.scale.index_copy_(0, row, kept.unsqueeze(0))
        self.residual.mul_(~ready)

    def keys(self):
        return torch.cat([(self.codes * self.scale).flatten(0, 1), self.residual])


def build(device, dim=8):
    cache = KiviCache(device)
    project = torch.randn(dim, dim, device=device) / dim**0.5

    def step(hidden):
        cache.append(hidden @ project)
        keys = cache.keys()
        return hidden + torch.softmax(keys @ hidden / dim**0.5, 0) @ keys

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(dim))

    return graphsafe.Step(step, (torch.randn(dim, device=device),), refresh=refresh)
