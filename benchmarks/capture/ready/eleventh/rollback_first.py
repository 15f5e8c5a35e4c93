"""A trainer's events: roll back to the weights before the last publication, and publish."""
import torch
from torch import nn

import graphsafe


class Server:
    def __init__(self, device):
        self.net = nn.Linear(16, 16).to(device).requires_grad_(False)
        self.before = None

    def publish(self):
        self.before = self.net.weight.detach().clone()
        self.net.weight.mul_(0.5)

    def rollback(self):
        if self.before is not None:
            self.net.weight = nn.Parameter(self.before, requires_grad=False)
            self.before = None

    def __call__(self, x):
        return self.net(x)


def build(device):
    server = Server(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))

    events = {"rollback": server.rollback, "publish": server.publish}
    return graphsafe.Step(server, (torch.randn(4, 16, device=device),), refresh=refresh, events=events)
