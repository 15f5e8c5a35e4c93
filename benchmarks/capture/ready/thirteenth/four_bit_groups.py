"""Weight-only four-bit linear layers: nibbles are unpacked by shifts, scales and zeros by group; reloads write in place."""
import torch
import torch.nn as nn

import graphsafe

GROUP = 16


class FourBit(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.register_buffer("packed", torch.zeros(m, n // 8, dtype=torch.int32))
        self.register_buffer("scale", torch.ones(m, n // GROUP, dtype=torch.float32))
        self.register_buffer("zero", torch.zeros(m, n // GROUP, dtype=torch.uint8))
        self.register_buffer("shifts", torch.arange(0, 32, 4, dtype=torch.int32))
        self.quantise(torch.randn(m, n) / n**0.5)

    def quantise(self, weight):
        m, n = weight.shape
        groups = weight.view(m, n // GROUP, GROUP)
        low, high = groups.amin(-1), groups.amax(-1)
        scale = (high - low) / 15
        zero = (-low / scale).round().clamp(0, 15)
        codes = (groups / scale[..., None] + zero[..., None]).round().clamp(0, 15).to(torch.int32).view(m, n // 8, 8)
        word = torch.zeros(m, n // 8, dtype=torch.int32)
        for i in range(8):
            word |= codes[..., i] << (4 * i)
        self.packed.copy_(word)
        self.scale.copy_(scale)
        self.zero.copy_(zero.to(torch.uint8))

    def forward(self, x):
        codes = (self.packed[..., None] >> self.shifts) & 15
        codes = codes.view(self.packed.shape[0], -1, GROUP)
        weight = (codes - self.zero[..., None].to(torch.int32)).to(x.dtype) * self.scale[..., None]
        return x @ weight.flatten(1).T


def build(device):
    net = nn.Sequential(FourBit(64, 96), nn.SiLU(), FourBit(96, 32)).to(device)
    x = torch.randn(3, 64, device=device)

    def reload():
        torch.manual_seed(9)
        net[0].quantise(torch.randn(96, 64) / 4)
        net[2].quantise(torch.randn(32, 96) / 4)

    return graphsafe.Step(net, (x,), {}, refresh=lambda args, kwargs, k: args[0].copy_(torch.randn(3, 64)), events={"reload": reload})
