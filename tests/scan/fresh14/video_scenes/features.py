"""Deep features that quick steps take from the last full step."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class FeatureCache:
    deep: torch.Tensor
    last: torch.Tensor

    @classmethod
    def empty(cls, channels, size):
        deep = torch.zeros(1, channels, size // 2, size // 2, device="cuda")
        return cls(deep, torch.zeros(1, 3, size, size, device="cuda"))

    def put(self, deep, frame):
        self.deep.copy_(deep)
        self.last.copy_(frame)

    def drift(self, frame):
        return (frame - self.last).abs().mean() / (self.last.abs().mean() + 1e-6)
