"""The autocast dtype of the process is changed by a health monitor; the step's autocast follows it."""
import torch
from torch import nn

import graphsafe


def build(device):
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
    torch.set_autocast_dtype(device.type, torch.bfloat16)

    @torch.no_grad()
    def step(x):
        with torch.autocast(device.type):
            return net(x).float()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 32))
        if k == 130:  # no overflow for long enough: float16 from here on
            torch.set_autocast_dtype(device.type, torch.float16)

    return graphsafe.Step(step, (torch.randn(8, 32, device=device),), refresh=refresh)
