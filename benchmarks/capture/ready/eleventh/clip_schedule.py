"""Gradient clipping is tightened near the end of training."""
import torch
from torch import nn

import graphsafe


class Trainer:
    max_norm = 1.0

    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9, foreach=True)

    def step(self, x):
        self.opt.zero_grad(set_to_none=False)
        loss = (self.net(x) - x).square().sum(1).mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), self.max_norm, foreach=True)
        self.opt.step()
        return loss.detach(), norm


def build(device):
    trainer = Trainer(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 8))
        if k >= 155:
            trainer.max_norm = 0.1

    return graphsafe.Step(trainer.step, (torch.randn(16, 8, device=device),), refresh=refresh)
