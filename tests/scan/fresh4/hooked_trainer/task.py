from __future__ import annotations

import torch
from torch import nn

from .callbacks import LossMeter, Spy, Warmup
from .trainer import Trainer


def make_net(features: int, classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(features, 48),
        nn.LayerNorm(48),
        nn.GELU(),
        nn.Linear(48, classes),
    )


def build(device, batch: int = 32):
    net = make_net(10, 5).to(device)
    trainer = Trainer(net, [LossMeter(), Spy(), Warmup(steps=200)])
    x = torch.randn(batch, 10, device=device)
    target = torch.randint(0, 5, (batch,), device=device)
    return trainer, (x, target)
