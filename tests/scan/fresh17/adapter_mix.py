"""Per-request LoRA for a linear layer, grouped by adapter."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Adapter:
    down: torch.Tensor
    up: torch.Tensor
    alpha: float

    def delta(self, x):
        return (x @ self.down) @ self.up * self.alpha


class MultiLoraLinear(nn.Module):
    def __init__(self, d_in, d_out, rank, n_adapters, device):
        super().__init__()
        self.base = nn.Linear(d_in, d_out, device=device)
        self.table = [
            Adapter(
                torch.randn(d_in, rank, device=device) * 0.1,
                torch.randn(rank, d_out, device=device) * 0.1,
                alpha=0.5 + 0.25 * i,
            )
            for i in range(n_adapters)
        ]

    def forward(self, x, adapter_ids):
        y = self.base(x)
        present = adapter_ids.unique()
        for a in present.tolist():
            members = adapter_ids == a
            group = x[members]
            y[members] += self.table[a].delta(group)
        return torch.nn.functional.gelu(y)


def build(device):
    torch.manual_seed(2)
    layer = MultiLoraLinear(24, 40, 4, n_adapters=3, device=device).requires_grad_(False)
    x = torch.randn(10, 24, device=device)
    ids = torch.randint(0, 3, (10,), device=device)
    return layer, (x, ids)
