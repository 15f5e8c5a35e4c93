"""A server that calls .to(), .float(), .eval() and .contiguous() before every step; none of them has anything to do."""
import copy

import torch
from torch import nn

import graphsafe


class Server:
    def __init__(self, device):
        self.device = device
        self.model = nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 4, 3, padding=1)).to(device)
        self.model.requires_grad_(False)
        self.first = copy.deepcopy(self.model.state_dict())

    def prepare(self, k):
        self.model.to(self.device)
        self.model.float()
        self.model.eval()
        for p in self.model.parameters():
            p.data = p.data.contiguous().to(torch.float32)
        if k % 30 == 29:
            self.model.load_state_dict({n: t * (1 + 0.01 * k) for n, t in self.first.items()})

    def step(self, x):
        return x + self.model(x.contiguous())


def build(device):
    server = Server(device)

    def refresh(args, kwargs, k):
        server.prepare(k)
        args[0].copy_(torch.randn(2, 4, 32))

    return graphsafe.Step(server.step, (torch.randn(2, 4, 32, device=device),), refresh=refresh)
