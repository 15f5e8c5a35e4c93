import torch
import torch.nn as nn


class LoRALinear(nn.Module):
    def __init__(self, dim, rank):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.lora_a = nn.Parameter(torch.zeros(rank, dim))
        self.lora_b = nn.Parameter(torch.zeros(dim, rank))

    def forward(self, x):
        return self.base(x) + (x @ self.lora_a.t()) @ self.lora_b.t()


class TinyLM(nn.Module):
    def __init__(self, vocab=100, dim=32, rank=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(LoRALinear(dim, rank) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.norm(x).mean(dim=0) @ self.embed.weight.t()


class AdapterStore:
    """All adapters stay resident on the device; switching is cheap."""

    def __init__(self, names, depth, dim, rank, device):
        self.table = {}
        for name in names:
            self.table[name] = [
                (torch.randn(rank, dim, device=device), torch.randn(dim, rank, device=device))
                for _ in range(depth)
            ]

    def activate(self, model, name):
        for layer, (a, b) in zip(model.layers, self.table[name]):
            layer.lora_a = nn.Parameter(a, requires_grad=False)
            layer.lora_b = nn.Parameter(b, requires_grad=False)
