"""Int8 simulation of a feed-forward block; activation ranges come from observers kept in a registry."""

import torch
import torch.nn.functional as F
from torch import nn


class RangeRegistry:
    """Name of a tensor -> its scale."""

    def __init__(self, bits: int = 8):
        self.top = 2 ** (bits - 1) - 1
        self.scales: dict[str, torch.Tensor] = {}

    def observer(self, name: str):
        def observe(x: torch.Tensor) -> torch.Tensor:
            if name not in self.scales:
                self.scales[name] = x.detach().abs().amax().clamp(min=1e-6) / self.top
            scale = self.scales[name]
            return torch.clamp(torch.round(x / scale), -self.top - 1, self.top) * scale

        return observe


class QuantLinear(nn.Module):
    def __init__(self, inputs: int, outputs: int, observe):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.observe = observe

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(self.observe(x), self.weight, self.bias)


class QuantFeedForward(nn.Module):
    def __init__(self, width: int, hidden: int, registry: RangeRegistry, prefix: str):
        super().__init__()
        self.up = QuantLinear(width, hidden, registry.observer(f"{prefix}.up"))
        self.down = QuantLinear(hidden, width, registry.observer(f"{prefix}.down"))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x) * x.abs().mean())))


def build(device):
    torch.manual_seed(7)
    registry = RangeRegistry()
    blocks = nn.Sequential(*(QuantFeedForward(16, 48, registry, f"block{i}") for i in range(2)))
    blocks.to(device).requires_grad_(False)
    return blocks, (torch.randn(10, 16, device=device),)
