"""A trainer halves its rate after a hundred good steps: sound, the rate is a tensor halved in place."""
import torch
from torch import nn

import graphsafe


class Trainer:
    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1)).to(device)
        self.params = list(self.net.parameters())
        self.good = torch.zeros((), dtype=torch.long, device=device)
        self.rate = torch.full((), 0.01, device=device)

    def step(self, x, y):
        loss = (self.net(x) - y).square().mean()
        grads = torch.autograd.grad(loss, self.params)
        with torch.no_grad():
            self.good.add_(torch.isfinite(loss))
            for param, grad in zip(self.params, grads, strict=True):
                param.sub_(self.rate * grad)
        return loss.detach()

    def between(self):
        if int(self.good) >= 100:
            self.good.zero_()
            self.rate.mul_(0.5)


def build(device):
    trainer = Trainer(device)

    def refresh(args, kwargs, k):
        trainer.between()
        rows = torch.randn(64, 6)
        args[0].copy_(rows)
        args[1].copy_(rows.sin().sum(1, keepdim=True))

    args = (torch.randn(64, 6, device=device), torch.randn(64, 1, device=device))
    return graphsafe.Step(trainer.step, args, refresh=refresh)
