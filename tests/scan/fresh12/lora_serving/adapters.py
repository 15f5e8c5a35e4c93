"""Low-rank adapters that can be changed while the server runs."""
import torch
import torch.nn as nn


class LoraLinear(nn.Module):
    def __init__(self, dim: int, rank: int):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.down = torch.zeros(rank, dim, device="cuda")
        self.up = torch.zeros(dim, rank, device="cuda")
        self.scale = 1.0

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.down.t()) @ self.up.t()


class AdapterManager:
    def __init__(self, layers):
        self.layers = layers
        self.store = {}

    def register(self, name, weights, alpha):
        self.store[name] = (weights, alpha)

    def activate(self, name):
        weights, alpha = self.store[name]
        for layer, (down, up) in zip(self.layers, weights):
            layer.down = down
            layer.up = up
            layer.scale = alpha / down.shape[0]
