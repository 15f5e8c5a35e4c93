"""A forecaster's input includes the hour of the day and its fraction: sound, the loop copies it into place."""
import time

import torch
from torch import nn

import graphsafe


def build(device):
    net = nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 2)).to(device).requires_grad_(False)

    def forecast(readings, hour):
        angle = hour * (2 * torch.pi / 24)
        rows = readings.shape[0]
        features = torch.cat([readings, angle.sin().expand(rows, 1), angle.cos().expand(rows, 1)], -1)
        return net(features)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 5))
        args[1].fill_(time.time() / 3600 % 24)

    return graphsafe.Step(forecast, (torch.randn(4, 5, device=device), torch.zeros(1, device=device)), refresh=refresh)
