"""Experts are tried in the order of their measured cost; the costs are running means on the host."""
import heapq

import torch

import graphsafe


class Experts:
    def __init__(self, device):
        self.weights = {n: torch.randn(8, 8).to(device) / 3 for n in ("wide", "deep", "fast")}
        self.cost = {"wide": 3.0, "deep": 2.0, "fast": 1.0}

    def observe(self, name, cost):
        self.cost[name] += 0.02 * (cost - self.cost[name])

    def __call__(self, x):
        for name in heapq.nsmallest(2, self.cost, key=self.cost.get):
            x = torch.tanh(x @ self.weights[name])
        return x


def build(device):
    experts = Experts(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))
        experts.observe("fast", 2.2)  # crosses 2.0 after some ninety steps

    return graphsafe.Step(experts, (torch.randn(4, 8, device=device),), refresh=refresh)
