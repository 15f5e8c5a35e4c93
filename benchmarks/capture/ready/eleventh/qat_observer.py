"""Quantization-aware training with torch's fused observer, whose switches are device tensors."""
import torch
from torch import nn
from torch.ao.quantization import FusedMovingAvgObsFakeQuantize, MovingAverageMinMaxObserver

import graphsafe


def build(device):
    net = nn.Linear(16, 8).to(device).requires_grad_(False)
    fake = FusedMovingAvgObsFakeQuantize(MovingAverageMinMaxObserver, quant_min=0, quant_max=255).to(device)

    def step(x):
        return fake(net(x).relu())

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16) * (1 + k / 50))
        if k == 120:
            fake.observer_enabled.fill_(0)

    return graphsafe.Step(step, (torch.randn(8, 16, device=device),), refresh=refresh)
