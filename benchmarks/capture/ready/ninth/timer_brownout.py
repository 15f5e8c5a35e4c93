"""A mixture of experts that sheds its second expert once the grace period of a power budget has run out."""
import threading
import time

import torch
from torch import nn

import graphsafe

GRACE = 60.0


class Shedding(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.Parameter(torch.randn(experts, width, width) / width ** 0.5)
        self.brownout = threading.Event()
        self.timer = threading.Timer(GRACE, self.brownout.set)
        self.timer.daemon = True
        self.timer.start()

    def forward(self, x):
        k = 1 if self.brownout.is_set() else 2  # <-B
        weight, index = torch.softmax(self.gate(x), dim=-1).topk(k, dim=-1)  # <-A
        every = torch.einsum("bi,eij->bej", x, self.experts)
        chosen = every.gather(1, index[..., None].expand(-1, -1, x.shape[1]))
        return (weight[..., None] * chosen).sum(1)


def build(device, batch=4, width=16, experts=4):
    model = Shedding(width, experts).to(device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)
    between.started = time.monotonic()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))

    return graphsafe.Step(model, (x,), refresh=refresh)


def between(k):  # for the oracle: a minute passes
    if k == 13:
        time.sleep(max(0.0, between.started + GRACE + 3 - time.monotonic()))
