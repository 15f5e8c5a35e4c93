"""Vector quantiser whose dead codes are revived between steps, written where the graph reads them."""

import torch

import graphsafe


class Quantiser:
    def __init__(self, device, codes=16, width=8):
        self.codes = torch.randn(codes, width, device=device)
        self.codes[10:] += 40.0
        self.usage = torch.ones(codes, device=device)

    def encode(self, x):
        near = torch.cdist(x, self.codes, compute_mode="donot_use_mm_for_euclid_dist").argmin(-1)
        hits = torch.nn.functional.one_hot(near, len(self.codes)).to(x.dtype)
        self.usage.mul_(0.95).add_(hits.sum(0), alpha=0.05)
        moved = hits.T @ x / hits.sum(0).clamp(min=1)[:, None]
        self.codes.add_((moved - self.codes) * (0.05 * (hits.sum(0) > 0))[:, None])
        return x - self.codes[near]

    def revive(self, x):
        dead = self.usage < 0.05
        if dead.any():
            donors = x[torch.arange(len(self.codes), device=x.device) % len(x)]
            self.codes.copy_(torch.where(dead[:, None], donors, self.codes))
            self.usage[dead] = 1.0


def build(device):
    quantiser = Quantiser(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(12, 8))
        if k % 16 == 15:
            quantiser.revive(args[0])

    return graphsafe.Step(quantiser.encode, (torch.randn(12, 8, device=device),), refresh=refresh)
