"""Mixtures of experts."""

import torch
from torch import nn


def as_float(fn):
    def inner(*args, **kwargs):
        return float(fn(*args, **kwargs))  # guilty: balance_weight GS101

    return inner


@as_float
def imbalance(weights):
    return weights.sum(0).std()


class Router(nn.Module):
    def __init__(self, dim, num_experts):
        super().__init__()
        self.gate = nn.Linear(dim, num_experts)

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        top = weights.max(-1)
        return weights, top.values, top.indices


class Mixture(nn.Module):
    def __init__(self, dim=8, num_experts=3):
        super().__init__()
        self.router = Router(dim, num_experts)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(num_experts))

    def forward(self, x):
        weights, gates, chosen = self.router(x)
        return self.dispatch(x, weights, chosen) * gates[:, None]


class LoopMixture(Mixture):
    def dispatch(self, x, weights, chosen):
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = torch.where(chosen == number)[0]  # guilty: expert_rows GS201
            if rows.numel():
                out.index_copy_(0, rows, expert(x[rows]))
        return out


# quiet: expert_blend
class DenseMixture(Mixture):
    def dispatch(self, x, weights, chosen):
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            out = torch.where((chosen == number)[:, None], expert(x), out)
        return out


class SortedMixture(Mixture):
    def dispatch(self, x, weights, chosen):
        order = chosen.argsort(stable=True)
        hits = (chosen[:, None] == torch.arange(len(self.experts), device=x.device)).sum(0)
        parts = x[order].split(hits.cpu().tolist())  # guilty: expert_parts GS103|GS101
        done = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        return done[order.argsort()]


class CapacityMixture(Mixture):
    factor = 1.25

    def capacity(self, chosen):
        hits = [(chosen == number).sum() for number in range(len(self.experts))]
        return int(max(hits) * self.factor)  # guilty: expert_capacity GS102|GS101

    def dispatch(self, x, weights, chosen):
        room = self.capacity(chosen)
        return sum(expert(x) for expert in self.experts) / room


class BalancedMixture(Mixture):
    def dispatch(self, x, weights, chosen):
        penalty = imbalance(weights)
        return x * (1.0 - penalty)


class NoisyMixture(Mixture):
    def __init__(self, dim=8):
        super().__init__(dim)
        self.jitter = torch.Generator(device="cpu").manual_seed(0)

    def dispatch(self, x, weights, chosen):
        shift = torch.rand((), generator=self.jitter).item()  # guilty: router_jitter GS504|GS502
        return x * (1 + shift)
