"""Int8 weights packed on demand: repacked when the weight's version has moved on."""
import torch
from torch import nn

import graphsafe


class PackedLinear(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim) / 5, requires_grad=False)
        self._packed = None
        self._packed_version = -1

    def pack(self):
        scale = self.weight.abs().amax(1, keepdim=True) / 127
        return (self.weight / scale).round().to(torch.int8), scale

    def forward(self, x):
        if self._packed_version != self.weight._version:  # LINE: False at capture
            self._packed = self.pack()
            self._packed_version = self.weight._version
        q, scale = self._packed
        return x @ (q.to(x.dtype) * scale).T


def build(device):
    torch.manual_seed(13)
    layer = PackedLinear().to(device)
    x = torch.randn(4, 24, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 24))
        if k % 20 == 19:  # the trainer sends new weights
            layer.weight.copy_(torch.randn(24, 24) / 5)

    return graphsafe.Step(layer, (x,), refresh=refresh)
