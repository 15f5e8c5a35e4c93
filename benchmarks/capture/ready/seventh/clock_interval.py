"""Expert load balancing: the router's bias is renewed from measured load at most every 20 seconds."""
import time

import torch
from torch import nn

import graphsafe

INTERVAL = 20.0


class Router(nn.Module):
    def __init__(self, dim=16, experts=8):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.register_buffer("bias", torch.zeros(experts))
        self.register_buffer("load", torch.zeros(experts))
        self.renewed = self.now()

    @staticmethod
    def now():
        return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)

    def forward(self, x):
        if self.now() - self.renewed > INTERVAL:  # LINE: never true while it is captured
            self.bias.sub_(self.load - self.load.mean(), alpha=0.5)
            self.renewed = self.now()
        probs = (self.gate(x) + self.bias).softmax(-1)
        self.load.lerp_(probs.mean(0), 0.2)
        return probs


def between(k):  # for the oracle: time passes
    if k == 1:
        real = time.clock_gettime
        time.clock_gettime = lambda clock: real(clock) + 7.0 * between.k
    between.k = k


def build(device):
    torch.manual_seed(18)
    router = Router().to(device).eval().requires_grad_(False)
    x = torch.randn(6, 16, device=device)
    return graphsafe.Step(router, (x,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(6, 16)))
