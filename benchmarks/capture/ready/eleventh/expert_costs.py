"""Experts' costs are ranked on the host for a dashboard; their outputs are summed in a fixed order."""
import heapq

import torch

import graphsafe


class Experts:
    def __init__(self, device):
        self.weights = {n: torch.randn(8, 8).to(device) / 3 for n in ("wide", "deep", "fast")}
        self.cost = {"wide": 3.0, "deep": 2.0, "fast": 1.0}
        self.best = None

    def observe(self, name, cost):
        self.cost[name] += 0.1 * (cost - self.cost[name])

    def __call__(self, x):
        self.best = heapq.nsmallest(2, self.cost, key=self.cost.get)
        return sum(torch.tanh(x @ w) for w in self.weights.values())


def build(device):
    experts = Experts(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))
        experts.observe("fast", 4.0)

    return graphsafe.Step(experts, (torch.randn(4, 8, device=device),), refresh=refresh)
