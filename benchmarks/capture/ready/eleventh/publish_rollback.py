"""Publishing keeps the weights before it in a spare buffer; rolling back copies them."""
import torch
from torch import nn

import graphsafe


class Server:
    def __init__(self, device):
        self.net = nn.Linear(16, 16).to(device).requires_grad_(False)
        self.spare = self.net.weight.detach().clone()
        self.have = False

    def publish(self):
        self.spare.copy_(self.net.weight)
        self.net.weight.mul_(0.5)
        self.have = True

    def rollback(self):
        if self.have:
            self.net.weight.copy_(self.spare)
            self.have = False

    def __call__(self, x):
        return self.net(x)


def build(device):
    server = Server(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))

    events = {"rollback": server.rollback, "publish": server.publish}
    return graphsafe.Step(server, (torch.randn(4, 16, device=device),), refresh=refresh, events=events)
