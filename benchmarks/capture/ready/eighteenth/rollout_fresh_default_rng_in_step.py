"""A simulator's step draws its pushes from a new numpy generator: faulty, the graph repeats one draw."""
import numpy as np
import torch

import graphsafe


def build(device, rows=16):
    speed = torch.zeros(rows, 3, device=device)

    def step(wind):
        strength = float(np.random.default_rng().normal())
        speed.mul_(0.95).add_(wind * (0.1 * strength))
        return speed.square().sum(-1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(rows, 3))

    return graphsafe.Step(step, (torch.zeros(rows, 3, device=device),), refresh=refresh)
