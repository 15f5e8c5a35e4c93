import torch
from torch import nn


class RetentionCell(nn.Module):
    def __init__(self, rows: int, dim: int, limit: int):
        super().__init__()
        self.mix = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        angle = torch.outer(torch.arange(limit).float(), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
        self.register_buffer("rot", torch.stack([angle.cos(), angle.sin()], 1), persistent=False)
        self.register_buffer("state", torch.zeros(rows, dim, dim))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))
        self.register_buffer("taps", torch.tensor([0, 3, 5]), persistent=False)
        self.register_buffer("decay", torch.linspace(0.9, 0.99, dim), persistent=False)
        self.limit = limit

    def _rotate(self, x: torch.Tensor) -> torch.Tensor:
        cos, sin = self.rot.index_select(0, self.at).squeeze(0).unbind(0)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.mix(x).chunk(3, -1)
        q, k = self._rotate(q), self._rotate(k)
        torch.addcmul(k[:, :, None] * v[:, None, :], self.state, self.decay[:, None], out=self.state)
        y = (q[:, None] @ self.state).squeeze(1)
        self.at.add_(1).remainder_(self.limit)
        return self.out(y) + y.index_select(1, self.taps).sum(1, keepdim=True)


class Tower(nn.Module):
    def __init__(self, depth: int, rows: int, dim: int, limit: int):
        super().__init__()
        self.cells = nn.ModuleList(RetentionCell(rows, dim, limit) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, cell in zip(self.norms, self.cells):
            x = x + cell(norm(x))
        return x


def build(device):
    torch.manual_seed(6)
    cell = Tower(2, 3, 8, 64).to(device).requires_grad_(False)
    return cell, (torch.randn(3, 8, device=device),)
