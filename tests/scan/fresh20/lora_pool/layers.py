import torch
from torch import nn


class LoRALinear(nn.Module):
    """Base weight plus one active low-rank adapter; `fused` caches the sum for decoding."""

    def __init__(self, dim_in, dim_out, rank=4):
        super().__init__()
        self.base = nn.Parameter(torch.randn(dim_out, dim_in) * dim_in**-0.5, requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(dim_out), requires_grad=False)
        self.register_buffer("a", torch.zeros(rank, dim_in))
        self.register_buffer("b", torch.zeros(dim_out, rank))
        self.scaling = 1.0
        self.fused = None

    def fuse(self):
        self.fused = self.base + self.scaling * (self.b @ self.a)

    def forward(self, x):
        if self.fused is not None:
            return torch.addmm(self.bias, x, self.fused.t())
        low = x @ self.a.t()
        return torch.addmm(self.bias, x, self.base.t()) + self.scaling * (low @ self.b.t())


class Net(nn.Module):
    def __init__(self, dim=24, classes=10):
        super().__init__()
        self.up = LoRALinear(dim, 2 * dim)
        self.down = LoRALinear(2 * dim, dim)
        self.gate = LoRALinear(dim, 2 * dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        h = torch.nn.functional.silu(self.gate(x)) * self.up(x)
        return self.head(x + self.down(h))
