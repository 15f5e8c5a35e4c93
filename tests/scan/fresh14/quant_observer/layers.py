"""Linear layers with int8 weights and activations that are quantised by a running scale."""

import torch
import torch.nn as nn


class QuantLinear(nn.Module):
    def __init__(self, source: nn.Linear):
        super().__init__()
        weight = source.weight.detach()
        self.register_buffer("step", weight.abs().amax(1, keepdim=True) / 127)
        self.register_buffer("weight", (weight / self.step).round().to(torch.int8))
        self.register_buffer("bias", source.bias.detach().clone())
        self.register_buffer("scale", torch.tensor(0.05))

    def forward(self, x):
        quantised = (x / self.scale).round().clamp(-127, 127) * self.scale
        return nn.functional.linear(quantised, self.weight * self.step, self.bias)


def quantise(net: nn.Sequential) -> nn.Sequential:
    return nn.Sequential(*(QuantLinear(part) if isinstance(part, nn.Linear) else part for part in net))
