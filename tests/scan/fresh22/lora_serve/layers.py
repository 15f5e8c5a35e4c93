import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, dim, rank):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.register_buffer("a", torch.zeros(rank, dim))
        self.register_buffer("b", torch.zeros(dim, rank))
        self.alpha = 1.0

    def forward(self, x):
        return self.base(x) + self.alpha * (x @ self.a.t() @ self.b.t())

    def attach(self, adapter):
        self.a = adapter["a"]
        self.b = adapter["b"]
        self.alpha = adapter["alpha"]
