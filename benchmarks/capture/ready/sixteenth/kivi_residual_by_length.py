"""A KIVI cache with a residual of full precision: a host length in slots says when a group is quantised."""
import torch

import graphsafe


class KiviCache:
    __slots__ = ("codes", "group", "length", "residual", "scale")

    def __init__(self, device, groups=4, group=8, dim=8):
        self.codes = torch.zeros(groups, group, dim, device=device)
        self.scale = torch.zeros(groups, 1, dim, device=device)
        self.residual = torch.zeros(group, dim, device=device)
        self.group = group
        self.length = 0

    def append(self, key):
        place, full = divmod(self.length, self.group)
        self.residual[full].copy_(key)
        self.length += 1
        if full == self.group - 1:
            scale = self.residual.abs().amax(0, keepdim=True).clamp(min=1e-6) / 7
            row = place % len(self.codes)
            self.codes[row].copy_(torch.round(self.residual / scale))
            self.scale[row].copy_(scale)
            self.residual.zero_()

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
