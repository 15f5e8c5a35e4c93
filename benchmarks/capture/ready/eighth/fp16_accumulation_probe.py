"""A half-precision tower. Between steps the engine measures the fast accumulation on a probe, and puts it back."""
import torch
from torch import nn

import graphsafe


class Tower(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) + x
        return x


class Governor:
    def __init__(self, device):
        self.probe = torch.randn(16, 16).to(device).half()
        self.last = None

    def observe(self, k):
        if k % 8 < 6:
            return
        before = torch.backends.cuda.matmul.allow_fp16_accumulation
        torch.backends.cuda.matmul.allow_fp16_accumulation = True
        try:
            self.last = self.probe @ self.probe
        finally:
            torch.backends.cuda.matmul.allow_fp16_accumulation = before


def build(device, batch=64, width=512, layers=2):
    model = Tower(width, layers).to(device).half().eval().requires_grad_(False)
    governor = Governor(device)
    x = torch.randn(batch, width).to(device).half()

    def refresh(args, kwargs, k):
        governor.observe(k)
        args[0].copy_(torch.randn(batch, width))

    return graphsafe.Step(model, (x,), refresh=refresh)
