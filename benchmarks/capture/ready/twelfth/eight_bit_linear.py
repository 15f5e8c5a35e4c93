"""An int8 layer: activations are quantised by their rows' maxima, _int_mm multiplies, device scales bring it back."""

import torch

import graphsafe


class Int8Linear(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        weight = torch.randn(outputs, inputs) / inputs**0.5
        scale = weight.abs().amax(1) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)

    def forward(self, x):
        step = x.abs().amax(1, keepdim=True).clamp(min=1e-4) / 127
        codes = (x / step).round().clamp(-127, 127).to(torch.int8)
        return torch._int_mm(codes, self.weight.t()).float() * step * self.scale


def build(device):
    layer = Int8Linear(32, 48).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(24, 32) * (1 + k % 5))
        if k % 40 == 39:  # calibration moves the scales where they are
            layer.scale.mul_(1.01)

    return graphsafe.Step(layer, (torch.randn(24, 32, device=device),), refresh=refresh)
