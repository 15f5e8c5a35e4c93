"""Memory of a temporal graph network: faulty, the step keeps the time of last events in a numpy array."""
import numpy as np
import torch

import graphsafe


def build(device, nodes=10, dim=6):
    memory = torch.zeros(nodes, dim, device=device)
    merge = torch.randn(2 * dim, dim, device=device) / dim**0.5
    last = np.zeros(nodes)
    event = {"pair": [0, 1], "time": 0.0}

    def step(feature, pair):
        ages = event["time"] - last[event["pair"]]
        last[event["pair"]] = event["time"]
        old = memory.index_select(0, pair)
        old = torch.stack([row * float(np.exp(-0.1 * age)) for row, age in zip(old, ages, strict=True)])
        new = torch.tanh(torch.cat([old, old.flip(0)], -1) @ merge + feature)
        memory.index_copy_(0, pair, new)
        return new

    def refresh(args, kwargs, k):
        pair = torch.randperm(nodes)[:2]
        args[0].copy_(torch.randn(dim))
        args[1].copy_(pair)
        event.update(pair=pair.tolist(), time=0.5 * k)

    return graphsafe.Step(step, (torch.randn(dim, device=device), torch.arange(2, device=device)), refresh=refresh)
