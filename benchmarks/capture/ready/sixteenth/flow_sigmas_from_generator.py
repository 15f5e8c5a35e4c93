"""A flow-matching sampler with shifted sigmas: the step draws its pair of floats from a generator."""
import itertools

import torch

import graphsafe


def shifted(steps, mu):
    """Pairs of sigmas of one image after the other."""
    while True:
        levels = [mu * s / (1 + (mu - 1) * s) for s in (1 - i / steps for i in range(steps + 1))]
        yield from itertools.pairwise(levels)


class Velocity(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mix, self.time = torch.nn.Linear(dim, dim), torch.nn.Linear(1, dim)

    def forward(self, x, sigma):
        return torch.tanh(self.mix(x) + self.time(sigma.expand(len(x), 1)))


class Sampler:
    def __init__(self, device, dim=6, steps=12):
        self.model = Velocity(dim).to(device).requires_grad_(False)
        self.steps = steps
        self.schedule = shifted(steps, mu=3.0)
        self.sigma = torch.ones(1, 1, device=device)

    def step(self, x):
        now, then = next(self.schedule)
        self.sigma.fill_(now)
        x.add_(self.model(x, self.sigma), alpha=then - now)
        return x.clone()


def build(device):
    sampler = Sampler(device)

    def refresh(args, kwargs, k):
        if k % sampler.steps == 9:
            args[0].copy_(torch.randn(3, 6))

    return graphsafe.Step(sampler.step, (torch.randn(3, 6, device=device),), refresh=refresh)
