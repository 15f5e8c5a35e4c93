"""Vector quantiser with moving-average codes. Codes that nobody uses are revived from the batch between steps."""

import torch

import graphsafe


class Quantiser:
    def __init__(self, device, codes=16, width=8):
        self.codes = torch.randn(codes, width, device=device)
        self.codes[10:] += 40.0
        self.usage = torch.ones(codes, device=device)

    def encode(self, x):
        near = torch.cdist(x, self.codes).argmin(-1)
        hits = torch.nn.functional.one_hot(near, len(self.codes)).to(x.dtype)
        self.usage.mul_(0.95).add_(hits.sum(0), alpha=0.05)
        moved = hits.T @ x / hits.sum(0).clamp(min=1)[:, None]
        rate = 0.05 * (hits.sum(0) > 0).to(x.dtype)[:, None]
        self.codes.lerp_(moved, rate.expand_as(moved).contiguous())
        return x - self.codes[near]

    def revive(self, x):
        dead = self.usage < 0.05
        if dead.any():
            donors = x[torch.arange(len(self.codes), device=x.device) % len(x)]
            self.codes = torch.where(dead[:, None], donors, self.codes)
            self.usage = torch.where(dead, torch.ones_like(self.usage), self.usage)


def build(device):
    quantiser = Quantiser(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(12, 8))
        if k % 16 == 15:
            quantiser.revive(args[0])

    return graphsafe.Step(quantiser.encode, (torch.randn(12, 8, device=device),), refresh=refresh)
