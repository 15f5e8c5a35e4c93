"""A cascaded controller: now and then the set-point is nudged along the trend of the last two commands."""
import torch
from torch import nn

import graphsafe


class Controller(nn.Module):
    def __init__(self, width, batch):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, width))
        self.register_buffer("before", torch.zeros(batch, width))
        self.register_buffer("last", torch.zeros(batch, width))

    def forward(self, x):
        command = torch.tanh(self.policy(x))
        self.before.copy_(self.last)
        self.last.copy_(command)
        return command


class Plant:
    def __init__(self, controller, every=10):
        self.controller, self.every = controller, every

    def observe(self, x, k):
        x.copy_(torch.randn(x.shape))
        if k % self.every == self.every - 1:
            x.add_(self.controller.last - self.controller.before, alpha=0.5)


def build(device, batch=4, width=12):
    controller = Controller(width, batch).to(device).eval().requires_grad_(False)
    plant = Plant(controller)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        plant.observe(args[0], k)

    return graphsafe.Step(controller, (x,), refresh=refresh)
