"""Linear layers in eight bits, scaled by the largest activations of the last steps."""

import torch
import torch.nn as nn

LARGEST = 448.0


class DelayedScale(nn.Module):
    def __init__(self, length=8):
        super().__init__()
        self.register_buffer("history", torch.ones(length))

    def note(self, x):
        self.history = torch.roll(self.history, 1)
        self.history[0].copy_(x.abs().amax())

    def scale(self):
        return LARGEST / float(self.history.max())


class Linear8(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        weight = torch.randn(outputs, inputs) / inputs**0.5
        self.register_buffer("weight_scale", LARGEST / weight.abs().amax())
        self.register_buffer("weight", (weight * self.weight_scale).round().clamp(-LARGEST, LARGEST))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.incoming = DelayedScale()

    def forward(self, x):
        scale = self.incoming.scale()
        self.incoming.note(x)
        narrow = (x * scale).round().clamp(-LARGEST, LARGEST)
        wide = narrow @ self.weight.T
        return wide / (self.weight_scale * scale) + self.bias


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = Linear8(width, 4 * width)
        self.down = Linear8(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def build(device):
    torch.manual_seed(29)
    net = nn.Sequential(Block(), Block()).to(device).eval().requires_grad_(False)
    return net, (torch.randn(8, 32, device=device),)
