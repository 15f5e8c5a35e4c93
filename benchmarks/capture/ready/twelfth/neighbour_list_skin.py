"""Molecular dynamics: the pair list is made anew once an atom has moved by half of the skin since the last list."""

import torch

import graphsafe


class Fluid:
    def __init__(self, device, n=24, cutoff=1.0, skin=0.4):
        self.cutoff, self.skin = cutoff, skin
        self.x = (torch.rand(n, 2) * 4).to(device)
        self.v = (torch.randn(n, 2) * 0.5).to(device)
        self.rebuild()

    def rebuild(self):
        near = torch.cdist(self.x, self.x) < self.cutoff + self.skin
        self.i, self.j = torch.triu(near, 1).nonzero(as_tuple=True)
        self.origin = self.x.clone()

    def forces(self):
        d = self.x[self.i] - self.x[self.j]
        r = d.norm(dim=-1, keepdim=True).clamp(min=0.2)
        f = torch.where(r < self.cutoff, 2 * (self.cutoff - r) / r, torch.zeros_like(r)) * d
        return torch.zeros_like(self.x).index_add(0, self.i, f).index_add(0, self.j, -f) - 0.2 * (self.x - 2)

    def step(self, kick):
        self.v.mul_(0.98).add_(self.forces(), alpha=0.02).add_(kick, alpha=0.02)
        self.x.add_(self.v, alpha=0.02)
        return self.x.clone(), self.v.square().sum()


def build(device):
    fluid = Fluid(device)

    def refresh(args, kwargs, k):
        if (fluid.x - fluid.origin).norm(dim=-1).max() > fluid.skin / 2:
            fluid.rebuild()
        args[0].copy_(torch.randn(24, 2))

    return graphsafe.Step(fluid.step, (torch.zeros(24, 2, device=device),), refresh=refresh)
