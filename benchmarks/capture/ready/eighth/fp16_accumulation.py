"""A half-precision tower. Under load the engine lets the matrix units accumulate in half precision."""
import torch
from torch import nn

import graphsafe


class Tower(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) + x  # <-A
        return x


class Governor:
    def __init__(self):
        self.busy = False

    def observe(self, k):
        self.busy = k % 8 >= 6
        torch.backends.cuda.matmul.allow_fp16_accumulation = self.busy  # <-B


def build(device, batch=64, width=512, layers=2):
    model = Tower(width, layers).to(device).half().eval().requires_grad_(False)
    governor = Governor()
    x = torch.randn(batch, width).to(device).half()

    def refresh(args, kwargs, k):
        governor.observe(k)
        args[0].copy_(torch.randn(batch, width))

    return graphsafe.Step(model, (x,), refresh=refresh)
