"""A weight-only int8 tensor subclass; the calibrator adjusts its scale between steps."""
import torch
from torch import nn
from torch.utils._pytree import tree_map_only

import graphsafe


class Int8Weight(torch.Tensor):
    @staticmethod
    def __new__(cls, codes, scale):
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32, device=codes.device)

    def __init__(self, codes, scale):
        self.codes, self.scale = codes, scale

    def __repr__(self):
        return f"Int8Weight({tuple(self.shape)}, scale={self.scale})"

    def __tensor_flatten__(self):
        return ["codes"], self.scale

    @staticmethod
    def __tensor_unflatten__(inner, scale, size, stride):
        return Int8Weight(inner["codes"], scale)

    def dense(self):
        return self.codes.to(torch.float32) * self.scale  # <-A

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = tree_map_only(Int8Weight, Int8Weight.dense, (args, kwargs or {}))
        return func(*args, **kwargs)


class Block(nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.norm = nn.LayerNorm(width).to(device)
        codes = torch.randint(-127, 128, (width, width), dtype=torch.int8).to(device)
        self.weight = Int8Weight(codes, 0.004)

    def forward(self, x):
        return x + nn.functional.linear(self.norm(x), self.weight)


def build(device, batch=4, width=24):
    block = Block(width, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % 10 == 9:  # the calibrator has seen another window of activations
            block.weight.scale = 0.004 + 0.001 * (k // 10 % 3 + 1)  # <-B

    return graphsafe.Step(block, (x,), refresh=refresh)
