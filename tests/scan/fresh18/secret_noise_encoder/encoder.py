"""Encoder with private-noise layers (local differential privacy) which own their random state."""

import torch
import torch.nn.functional as F
from torch import nn


class NoiseSource:
    """Each layer gets a source, so that noise does not depend on what else the process draws."""

    def __init__(self, seed: int, device):
        self.state = torch.Generator(device=device)
        self.state.manual_seed(seed)

    def laplace(self, like: torch.Tensor, scale: float) -> torch.Tensor:
        centred = torch.empty_like(like).uniform_(-0.4999, 0.4999, generator=self.state)
        return -scale * centred.sign() * torch.log1p(-2 * centred.abs())


class PrivateLinear(nn.Module):
    def __init__(self, inputs: int, outputs: int, source: NoiseSource, budget: float):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.weight)
        self.source = source
        self.scale = 1.0 / budget

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bounded = x / x.norm(dim=-1, keepdim=True).clamp(min=1.0)
        noisy = bounded + self.source.laplace(bounded, self.scale)
        return F.linear(noisy, self.weight, self.bias)


class Encoder(nn.Module):
    def __init__(self, widths: list[int], budget: float, device):
        super().__init__()
        pairs = zip(widths[:-1], widths[1:])
        self.layers = nn.ModuleList(
            PrivateLinear(a, b, NoiseSource(100 + i, device), budget) for i, (a, b) in enumerate(pairs)
        )
        self.norm = nn.LayerNorm(widths[-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.silu(layer(x))
        return self.norm(x)


def build(device):
    torch.manual_seed(5)
    encoder = Encoder([16, 32, 32, 8], budget=4.0, device=device).to(device).eval()
    encoder.requires_grad_(False)
    x = torch.randn(12, 16, device=device)
    return encoder, (x,)
