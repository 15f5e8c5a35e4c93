"""A point-cloud encoder whose BatchNorm momentum is halved by a schedule."""
import torch
from torch import nn

import graphsafe


class BNMomentum:
    def __init__(self, model, every):
        self.model, self.every = model, every

    def step(self, k):
        for m in self.model.modules():
            if isinstance(m, nn.BatchNorm1d):
                m.momentum = max(0.01, 0.1 * 0.5 ** (k // self.every))


def build(device):
    net = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 8, 1)).to(device)
    schedule = BNMomentum(net, 70)

    def step(points):
        with torch.no_grad():
            feats = net(points).amax(-1)
        return feats, net[1].running_mean.clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 3, 64) + 0.01 * k)
        schedule.step(k)

    return graphsafe.Step(step, (torch.randn(4, 3, 64, device=device),), refresh=refresh)
