"""Calibration finds that a layer's bias does harm and takes it out of the module while the server runs."""

import torch
from torch import nn

import graphsafe


def build(device):
    net = nn.Sequential(nn.Linear(10, 20), nn.Hardtanh(), nn.Linear(20, 4)).to(device).eval().requires_grad_(False)

    def calibrate():
        if net[2].bias is not None:
            net[2].bias = None

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, 10))

    return graphsafe.Step(net, (torch.randn(3, 10, device=device),), refresh=refresh, events={"calibrated": calibrate})
