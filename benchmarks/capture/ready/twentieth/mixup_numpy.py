"""Mixup from the reference implementation: lambda by numpy, the permutation by torch on the device."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


def mixup_data(x, y, alpha=1.0):
    lam = np.random.beta(alpha, alpha) if alpha > 0 else 1
    index = torch.randperm(x.size(0), device=x.device)
    mixed = lam * x + (1 - lam) * x[index]
    return mixed, y, y[index], lam


def mixup_criterion(pred, ya, yb, lam):
    return lam * F.cross_entropy(pred, ya) + (1 - lam) * F.cross_entropy(pred, yb)


def build(device, batch=8):
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    x = torch.randn(batch, 3, 10, 10, device=device)
    y = torch.randint(0, 5, (batch,), device=device)

    def step(x, y):
        mixed, ya, yb, lam = mixup_data(x, y)
        loss = mixup_criterion(net(mixed), ya, yb, lam)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 3, 10, 10))
        args[1].copy_(torch.randint(0, 5, (batch,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)
