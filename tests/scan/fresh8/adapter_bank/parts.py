"""Low-rank layers whose adapter memory never moves."""
import torch
from torch import nn


class BankedLinear(nn.Module):
    def __init__(self, width: int, rank: int):
        super().__init__()
        self.base = nn.Linear(width, width)
        self.register_buffer("down", torch.zeros(rank, width))
        self.register_buffer("up", torch.zeros(width, rank))
        self.register_buffer("strength", torch.zeros(()))
        self.rank = rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = nn.functional.linear(nn.functional.linear(x, self.down), self.up)
        return self.base(x) + self.strength * low

    @torch.no_grad()
    def install(self, down: torch.Tensor, up: torch.Tensor, strength: float) -> None:
        rank = down.shape[0]
        if rank > self.rank:
            raise ValueError(f"rank {rank} exceeds {self.rank}")
        self.down.zero_()
        self.up.zero_()
        self.down[:rank].copy_(down, non_blocking=True)
        self.up[:, :rank].copy_(up, non_blocking=True)
        self.strength.fill_(strength)


class Tower(nn.Module):
    def __init__(self, width: int, rank: int, depth: int):
        super().__init__()
        self.layers = nn.ModuleList(BankedLinear(width, rank) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x
