"""The loader looks at each batch before upload and sets the shift of a fixed-point layer for it."""
import math

import torch

import graphsafe


class FixedPoint:
    def __init__(self, device):
        self.w = (torch.randn(16, 8) * 8).round().to(device)
        self.shift = 4

    def plan(self, batch):
        self.shift = max(0, 7 - math.ceil(math.log2(batch.abs().max().item())))

    def __call__(self, x):
        codes = (x * 2**self.shift).round().clamp(-128, 127)
        return codes @ self.w / 2**self.shift


def build(device):
    layer = FixedPoint(device)

    def refresh(args, kwargs, k):
        batch = torch.rand(4, 16) * 8 - 4
        batch[0, 0] = 7.5
        if k == 137:
            batch[1, 1] = 60.0  # a rare loud frame
        layer.plan(batch)
        args[0].copy_(batch)

    return graphsafe.Step(layer, (torch.rand(4, 16, device=device),), refresh=refresh)
