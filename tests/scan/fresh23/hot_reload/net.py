import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.mix = nn.Parameter(torch.zeros(depth))
        self.memory: torch.Tensor | None = None
        self.residual = 1.0

    def allocate(self, batch: int, slots: int) -> None:
        first = self.layers[0].weight
        self.memory = first.new_zeros(batch, slots, first.shape[1])

    def forward(self, x: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
        self.memory.scatter_(1, slot.view(-1, 1, 1).expand(-1, 1, x.shape[-1]), x[:, None])
        x = x + self.memory.mean(1)
        for layer, weight in zip(self.layers, self.mix.sigmoid()):
            x = self.residual * x + weight * torch.tanh(layer(x))
        return x
