"""Hamiltonian Monte Carlo: every 25 transitions the loop reads the acceptance and adapts the leapfrog step size."""
import math

import torch

import graphsafe


class HMC:
    def __init__(self, device, chains=64, dim=6, leaps=5):
        self.precision = torch.linspace(0.5, 8.0, dim, device=device)
        self.q = torch.randn(chains, dim, device=device)
        self.accepted = torch.zeros(chains, device=device)
        self.leaps, self.size, self.count = leaps, 0.30, 0

    def potential(self, q):
        return 0.5 * (self.precision * q * q).sum(-1) + 0.25 * (q[:, :1] - q[:, 1:2]).square().squeeze(-1)

    def force(self, q):
        with torch.enable_grad():
            q = q.detach().requires_grad_()
            return -torch.autograd.grad(self.potential(q).sum(), q)[0]

    def step(self):
        q, p = self.q.clone(), torch.randn_like(self.q)
        start = self.potential(q) + 0.5 * p.square().sum(-1)
        p = p + 0.5 * self.size * self.force(q)
        for leap in range(self.leaps):
            q = q + self.size * p
            p = p + (0.5 if leap == self.leaps - 1 else 1.0) * self.size * self.force(q)
        chance = torch.exp((start - self.potential(q) - 0.5 * p.square().sum(-1)).clamp(max=0.0))
        take = torch.rand_like(chance) < chance
        self.q.copy_(torch.where(take[:, None], q, self.q))
        self.accepted.add_(chance)
        return self.q, chance

    def adapt(self, args, kwargs, k):
        self.count += 1
        if self.count % 25 == 0:
            rate = float(self.accepted.mean()) / 25
            self.accepted.zero_()
            if abs(rate - 0.8) > 0.05:
                self.size *= math.exp(min(max(rate - 0.8, -0.2), 0.2))


def build(device):
    sampler = HMC(device)
    return graphsafe.Step(sampler.step, (), {}, refresh=sampler.adapt)
