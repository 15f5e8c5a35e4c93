"""A pipeline stage with stashed weights: the step takes the weights of the host's version from a list."""
import torch

import graphsafe


class Stage:
    def __init__(self, device, dim=6, depth=3):
        start = torch.randn(dim, dim, device=device) / dim**0.5
        self.stash = [start.clone() for _ in range(depth)]
        self.version = 0
        self.gradient = torch.zeros_like(start)
        self.depth, self.newest = depth, 0

    def step(self, x, delta):
        weight = self.stash[self.version % self.depth]
        out = torch.tanh(x @ weight)
        back = delta * (1 - out * out)
        self.gradient.add_(x.t() @ back)
        return out, back @ weight.t()

    def optimize(self, rate=0.02):
        """The new version is put in the place of the oldest one."""
        old, new = self.newest % self.depth, (self.newest + 1) % self.depth
        self.stash[new].copy_(self.stash[old] - rate * self.gradient)
        self.gradient.zero_()
        self.newest += 1
        self.version = self.newest


def build(device):
    stage = Stage(device)

    def refresh(args, kwargs, k):
        if k % 6 == 5:
            stage.optimize()
        for t in args:
            t.copy_(torch.randn(4, 6))

    return graphsafe.Step(stage.step, tuple(torch.randn(4, 6, device=device) for _ in range(2)), refresh=refresh)
