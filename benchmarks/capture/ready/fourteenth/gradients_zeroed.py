"""The step accumulates gradients; every so often the loop applies them, with a rate of its schedule, and zeroes them."""
import torch
from torch import nn

import graphsafe


class Loop:
    def __init__(self, device):
        self.model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 20)
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)
        self.every = 8

    def forward_backward(self, x, y):
        loss = (self.model(x) - y).square().mean()
        loss.backward()
        return loss.detach(), torch.stack([p.grad.norm() for p in self.model.parameters()])

    def boundary(self, k):
        if k % self.every == self.every - 1:
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad(set_to_none=False)
        if k == 119:
            self.every = 16


def build(device):
    loop = Loop(device)

    def refresh(args, kwargs, k):
        loop.boundary(k)
        x = torch.randn(12, 8)
        args[0].copy_(x)
        args[1].copy_(x.mean(1, keepdim=True))

    x, y = torch.randn(12, 8, device=device), torch.randn(12, 1, device=device)
    return graphsafe.Step(loop.forward_backward, (x, y), refresh=refresh)
