"""BatchNorm in training with a constant momentum; the scheduler has reached its floor before the first step."""
import torch
from torch import nn

import graphsafe


class BNMomentum:
    def __init__(self, model):
        self.model = model

    def step(self, k):
        for m in self.model.modules():
            if isinstance(m, nn.BatchNorm1d):
                m.momentum = max(0.01, 0.1 * 0.5 ** (k // 5))


def build(device):
    net = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU()).to(device)
    schedule, epoch = BNMomentum(net), 40
    schedule.step(epoch)

    def step(points):
        with torch.no_grad():
            return net(points).amax(-1), net[1].running_mean.clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 3, 64) + 0.01 * k)
        schedule.step(epoch + k)

    return graphsafe.Step(step, (torch.randn(4, 3, 64, device=device),), refresh=refresh)
