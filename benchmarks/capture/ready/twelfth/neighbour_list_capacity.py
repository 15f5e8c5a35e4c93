"""Molecular dynamics with a pair list of fixed capacity, which the loop fills anew in place when atoms have moved."""

import torch

import graphsafe


class Fluid:
    def __init__(self, device, n=24, cutoff=1.0, skin=0.4):
        self.cutoff, self.skin, self.rebuilt = cutoff, skin, 0
        self.x = (torch.rand(n, 2) * 4).to(device)
        self.v = (torch.randn(n, 2) * 0.5).to(device)
        self.origin = self.x.clone()
        self.pairs = torch.zeros(2, n * (n - 1) // 2, dtype=torch.long, device=device)
        self.live = torch.zeros(n * (n - 1) // 2, 1, device=device, dtype=torch.float64)
        self.rebuild()

    def rebuild(self):
        found = torch.triu(torch.cdist(self.x, self.x) < self.cutoff + self.skin, 1).nonzero().T
        self.live.zero_()[: found.shape[1]] = 1
        self.pairs.zero_()[:, : found.shape[1]] = found
        self.origin.copy_(self.x)
        self.rebuilt += 1

    def forces(self):
        i, j = self.pairs
        d = (self.x[i] - self.x[j]).double()
        r = d.norm(dim=-1, keepdim=True).clamp(min=0.2)
        f = torch.where(r < self.cutoff, 2 * (self.cutoff - r) / r, torch.zeros_like(r)) * d * self.live
        pull = torch.zeros_like(self.x, dtype=torch.float64).index_add(0, i, f).index_add(0, j, -f)
        return pull.float() - 0.2 * (self.x - 2)

    def step(self, kick):
        self.v.mul_(0.9).add_(self.forces(), alpha=0.02).add_(kick, alpha=0.02)
        self.x.add_(self.v, alpha=0.02)
        return self.x.clone(), self.v.square().sum()


def build(device):
    fluid = Fluid(device)

    def refresh(args, kwargs, k):
        if (fluid.x - fluid.origin).norm(dim=-1).max() > fluid.skin / 8:
            fluid.rebuild()
        args[0].copy_(torch.randn(24, 2))

    return graphsafe.Step(fluid.step, (torch.zeros(24, 2, device=device),), refresh=refresh)
