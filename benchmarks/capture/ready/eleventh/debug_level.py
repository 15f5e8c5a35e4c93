"""With DEBUG logging on, the loss is also checked for outliers and clamped."""
import logging

import torch
from torch import nn

import graphsafe

log = logging.getLogger("speech.loss")


def build(device):
    log.setLevel(logging.INFO)
    net = nn.Linear(16, 16).to(device).requires_grad_(False)

    def loss(x):
        err = (net(x) - x).square()
        if log.isEnabledFor(logging.DEBUG):
            err = err.clamp(max=2.0)  # keeps the debug histogram readable
        return err.mean(1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        log.setLevel(logging.DEBUG if 140 <= k < 150 else logging.INFO)

    return graphsafe.Step(loss, (torch.randn(8, 16, device=device),), refresh=refresh)
