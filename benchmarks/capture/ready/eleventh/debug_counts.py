"""DEBUG logging adds a host-side note of shapes; the loss is the same."""
import logging

import torch
from torch import nn

import graphsafe

log = logging.getLogger("vision.loss")


def build(device):
    log.setLevel(logging.INFO)
    net, notes = nn.Linear(16, 16).to(device).requires_grad_(False), []

    def loss(x):
        err = (net(x) - x).square()
        if log.isEnabledFor(logging.DEBUG):
            notes.append(f"loss over {tuple(err.shape)}")
        return err.mean(1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        log.setLevel(logging.DEBUG if k % 3 == 1 else logging.INFO)

    return graphsafe.Step(loss, (torch.randn(8, 16, device=device),), refresh=refresh)
