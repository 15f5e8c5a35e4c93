"""Activations are kept as int8 for the backward pass; the scale follows a calibration that runs now and then."""
import torch
from torch import nn

import graphsafe


class Compressor(torch.autograd.graph.saved_tensors_hooks):
    scale = 0.05

    def __init__(self):
        super().__init__(self.pack, self.unpack)

    @classmethod
    def calibrate(cls, k):
        cls.scale = 0.05 if k % 12 < 6 else 0.2  # <-B

    def pack(self, t):
        if not t.is_floating_point() or isinstance(t, nn.Parameter):
            return t
        return (t / self.scale).round().clamp(-127, 127).to(torch.int8), t.dtype  # <-A

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        codes, dtype = packed
        return codes.to(dtype) * self.scale


def build(device, batch=8, features=12):
    first, second = nn.Linear(features, 16).to(device), nn.Linear(16, 1).to(device)
    weights = [first.weight, second.weight]
    x = torch.randn(batch, features).to(device)

    def step(x):
        with Compressor():
            loss = second(torch.nn.functional.silu(first(x))).square().mean()
        return (loss.detach(), *torch.autograd.grad(loss, weights))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, features))
        Compressor.calibrate(k)

    return graphsafe.Step(step, (x,), refresh=refresh)
