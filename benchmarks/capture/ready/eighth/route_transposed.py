"""A token mixer whose routing matrix is turned round between forward and reverse passes of a bidirectional model."""
import torch
from torch import nn

import graphsafe


class Mixer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.register_buffer("route", torch.rand(tokens, tokens).tril())
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        mixed = torch.matmul(self.route, self.norm(x))  # <-A
        return x + self.out(mixed)


class Runner:
    def __init__(self, device, tokens, width):
        self.mixer = Mixer(tokens, width).to(device).eval().requires_grad_(False)
        self.tokens, self.width = tokens, width

    def prepare(self, args, kwargs, k):
        args[0].copy_(torch.randn(args[0].shape))
        if k % 6 == 5:  # the next sequence is read from right to left
            self.mixer.route.t_()  # <-B


def build(device, batch=2, tokens=12, width=16):
    runner = Runner(device, tokens, width)
    x = torch.randn(batch, tokens, width).to(device)
    return graphsafe.Step(runner.mixer, (x,), refresh=runner.prepare)
