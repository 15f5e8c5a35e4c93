"""Adapters are applied in the order of their priorities, whose values drift and whose order does not."""
import torch

import graphsafe


def build(device):
    banks = {n: torch.randn(8, 8).to(device) / 3 for n in ("safety", "style", "domain")}
    priority = {"style": 2.0, "domain": 3.0, "safety": 1.0}

    def step(x):
        for name in sorted(banks, key=lambda n: priority[n]):
            x = torch.tanh(x @ banks[name])
        return x

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))
        priority["style"] = 2.0 + 0.5 * (k % 7) / 7
        priority["safety"] = 1.0 / (1 + k)

    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)
