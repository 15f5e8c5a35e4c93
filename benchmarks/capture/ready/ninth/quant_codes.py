"""An int8 head whose weights are requantised from the trainer's snapshot now and then, in place, on a fixed grid."""
import torch
from torch import nn

import graphsafe


class Int8Head(nn.Module):
    GRID = 0.02

    def __init__(self, width, classes, device):
        super().__init__()
        self.body = nn.Linear(width, width).to(device)
        self.master = torch.randn(classes, width).to(device) / width ** 0.5
        self.codes = self.quantise(1.0)

    def quantise(self, gain):
        return torch.quantize_per_tensor(self.master * gain, self.GRID, 0, torch.qint8)

    def reload(self, gain):
        self.codes.copy_(self.quantise(gain))

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        return hidden @ self.codes.dequantize().t()


def build(device, batch=4, width=24, classes=10):
    head = Int8Head(width, classes, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % 9 == 8:
            head.reload(1.0 + 0.25 * (k // 9 % 3))

    return graphsafe.Step(head, (x,), refresh=refresh)
