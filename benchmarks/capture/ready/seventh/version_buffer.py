"""Int8 weights in static buffers: packed at the first call, repacked in place by whoever changes the weight."""
import torch
from torch import nn

import graphsafe


class PackedLinear(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim) / 5, requires_grad=False)
        self.register_buffer("q", torch.zeros(dim, dim, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(dim, 1))
        self._ready = False

    def pack(self):
        self.scale.copy_(self.weight.abs().amax(1, keepdim=True) / 127)
        self.q.copy_((self.weight / self.scale).round())

    def forward(self, x):
        if not self._ready:  # depends on no input
            self.pack()
            self._ready = True
        return x @ (self.q.to(x.dtype) * self.scale).T


def build(device):
    torch.manual_seed(13)
    layer = PackedLinear().to(device)
    x = torch.randn(4, 24, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 24))
        if k % 20 == 19:
            layer.weight.copy_(torch.randn(24, 24) / 5)
            layer.pack()

    return graphsafe.Step(layer, (x,), refresh=refresh)
