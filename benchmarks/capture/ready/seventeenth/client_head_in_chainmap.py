"""Federated models with a personal head over shared weights: faulty, a client's head is put into a ChainMap."""
from collections import ChainMap

import torch
from torch.func import functional_call

import graphsafe


def build(device, dim=6):
    model = torch.nn.Sequential(torch.nn.Linear(dim, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).to(device)
    shared = {name: p.detach() for name, p in model.named_parameters()}
    heads = [{name: torch.randn_like(p) for name, p in shared.items() if name.startswith("2.")} for _ in range(3)]
    weights = ChainMap(heads[0], shared)

    def step(x):
        return torch.softmax(functional_call(model, dict(weights), (x,)), -1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, dim))
        if k % 17 == 0:
            head = heads[k // 17 % len(heads)]
            weights.maps[0] = head

    return graphsafe.Step(step, (torch.randn(4, dim, device=device),), refresh=refresh)
