"""A linear layer in an MX block format, weights synchronised by a trainer: sound, exponents are an int8 tensor."""
import torch

import graphsafe


class MXLinear:
    def __init__(self, weight):
        self.codes = torch.zeros(weight.shape, dtype=torch.int8, device=weight.device)
        self.exponents = torch.zeros(len(weight), 1, dtype=torch.int8, device=weight.device)
        self.load(weight)

    def load(self, weight):
        exponents = torch.log2(weight.abs().amax(1, keepdim=True) / 127).ceil()
        self.codes.copy_((weight / 2.0**exponents).round())
        self.exponents.copy_(exponents)

    def weight(self):
        return self.codes * 2.0**self.exponents

    def __call__(self, x):
        return x @ self.weight().T


def build(device, width=16):
    master = torch.randn(width, width) / 4
    layer = MXLinear(master.to(device))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, width))
        master.mul_(1.004)
        if k % 12 == 0:
            layer.load(master.to(device))

    return graphsafe.Step(layer, (torch.randn(4, width, device=device),), refresh=refresh)
