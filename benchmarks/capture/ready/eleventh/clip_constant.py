"""Clipping by the total norm, with a bound that the trainer never changes; steps are counted for the log."""
import torch
from torch import nn

import graphsafe


class Trainer:
    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.02, momentum=0.9, nesterov=True, foreach=True)
        self.seen, self.log = 0, {}

    def step(self, x):
        self.seen += len(x)
        self.opt.zero_grad(set_to_none=False)
        loss = (self.net(x) - x).square().sum(1).mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 0.5, error_if_nonfinite=False)
        self.opt.step()
        self.log["seen"] = self.seen
        return loss.detach(), norm


def build(device):
    trainer = Trainer(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 8))

    return graphsafe.Step(trainer.step, (torch.randn(16, 8, device=device),), refresh=refresh)
