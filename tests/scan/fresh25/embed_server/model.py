"""The text encoder: embeddings, two mixing layers, a projection that adapters change."""
import torch
from torch import nn


class Projection(nn.Module):
    """A frozen base matrix plus a low-rank adapter, multiplied out once."""

    def __init__(self, width: int, dim: int, rank: int):
        super().__init__()
        self.register_buffer("base", torch.randn(dim, width) / width**0.5)
        self.register_buffer("down", torch.zeros(rank, width))
        self.register_buffer("up", torch.zeros(dim, rank))
        self.register_buffer("merged", self.base.clone())

    def merge(self) -> None:
        self.merged.copy_(self.base + self.up @ self.down)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h @ self.merged.T


class Encoder(nn.Module):
    def __init__(self, vocab: int = 100, width: int = 32, dim: int = 16, rank: int = 4):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.project = Projection(width, dim, rank)

    def forward(self, ids: torch.Tensor, pooling: str) -> torch.Tensor:
        h = self.embed(ids)
        for layer in self.layers:
            h = h + torch.tanh(layer(h))
        if pooling == "mean":
            pooled = h.mean(1)
        elif pooling == "max":
            pooled = h.amax(1)
        else:
            pooled = h[:, 0]
        return nn.functional.normalize(self.project(pooled), dim=-1)
