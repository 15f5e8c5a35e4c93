"""A four-bit linear layer whose weights come from a trainer: faulty, the global scale alpha is a float."""
import torch

import graphsafe


class FourBitLinear:
    __slots__ = ("alpha", "block_scales", "codes", "input_scale")

    def __init__(self, weight, device):
        rows, columns = weight.shape
        self.codes = torch.zeros(rows, columns, dtype=torch.int8, device=device)
        self.block_scales = torch.zeros(rows, columns // 4, 1, device=device)
        self.input_scale = 0.02
        self.alpha = 0.0
        self.load(weight)

    def load(self, weight):
        blocks = weight.view(len(weight), -1, 4)
        scales = blocks.abs().amax(-1, keepdim=True) / 6
        whole = float(scales.max()) / 448
        self.codes.copy_((blocks / scales).round().view_as(weight))
        self.block_scales.copy_((scales / whole).round())
        self.alpha = whole * self.input_scale

    def __call__(self, x):
        levels = (x / self.input_scale).round().clamp(-448, 448)
        weight = self.codes.view(len(self.codes), -1, 4) * self.block_scales
        return levels @ weight.flatten(1).T * self.alpha


def build(device, rows=8, columns=8):
    weight = torch.randn(rows, columns)
    layer = FourBitLinear(weight, device)

    def step(x):
        return torch.nn.functional.silu(layer(x))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, columns))
        if k % 24 == 23:
            weight.add_(torch.randn(rows, columns), alpha=0.5)
            layer.load(weight)

    return graphsafe.Step(step, (torch.randn(4, columns, device=device),), refresh=refresh)
