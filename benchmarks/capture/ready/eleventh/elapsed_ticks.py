"""A scorer changes to its new table when the machine's tick count enters the next epoch."""
import os

import torch

import graphsafe

IDLE = 6.0


def build(device):
    old, new = torch.randn(16, 4).to(device), torch.randn(16, 4).to(device)
    start = os.times().elapsed

    def epoch():
        return int((os.times().elapsed - start) // 5.5)

    def score(x):
        return x @ (old if epoch() == 0 else new)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))

    return graphsafe.Step(score, (torch.randn(8, 16, device=device),), refresh=refresh)
