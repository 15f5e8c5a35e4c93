"""Progressive growing: a stage is appended late in training."""
import torch
from torch import nn

import graphsafe


def build(device):
    stages = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(8, 3, 1)).to(device).requires_grad_(False)

    def paint(z):
        return stages(z)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, 3, 8, 8))
        if k == 165:
            stages.append(nn.Upsample(scale_factor=2))

    return graphsafe.Step(paint, (torch.randn(1, 3, 8, 8, device=device),), refresh=refresh)
