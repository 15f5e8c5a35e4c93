"""A feed-forward block with weights in four bits and activations in eight; their range stays on the device."""

import torch
import torch.nn as nn

BATCH, WIDTH, HIDDEN, GROUP = 8, 32, 64, 16
LEVELS = (-1.0, -0.7, -0.53, -0.39, -0.28, -0.18, -0.09, 0.0, 0.08, 0.16, 0.25, 0.34, 0.44, 0.56, 0.72, 1.0)


class NF4Linear(nn.Module):
    def __init__(self, inputs, outputs, clip=3.0):
        super().__init__()
        weight = torch.randn(outputs * inputs // GROUP, GROUP) / inputs**0.5
        table = torch.tensor(LEVELS)
        highest = weight.abs().amax(1, keepdim=True)
        codes = ((weight / highest).unsqueeze(-1) - table).abs().argmin(-1)
        self.shape = (outputs, inputs)
        self.clip = clip
        self.register_buffer("table", table)
        self.register_buffer("codes", codes.to(torch.uint8))
        self.register_buffer("highest", highest)
        self.register_buffer("range", torch.full((), 1e-3))

    def weight(self):
        return (self.table[self.codes.long()] * self.highest).view(self.shape)

    def quantize(self, x):
        torch.maximum(self.range.mul_(0.99), x.abs().amax(), out=self.range)
        x = x.clamp(-self.clip, self.clip)
        scale = self.range.clamp(max=self.clip) / 127
        return torch.clamp(torch.round(x / scale), -127, 127), scale

    def forward(self, x):
        rounded, scale = self.quantize(x)
        return (rounded @ self.weight().t()) * scale


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.up = NF4Linear(WIDTH, HIDDEN)
        self.down = NF4Linear(HIDDEN, WIDTH)

    @torch.no_grad()
    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


def build(device):
    torch.manual_seed(13)
    return Block().to(device).eval(), (torch.randn(BATCH, WIDTH, device=device),)
