import torch
from torch import nn


class Codebook(nn.Module):
    """Residual vector quantiser whose entries follow averages of their inputs."""

    def __init__(self, size: int, dim: int, decay: float = 0.95):
        super().__init__()
        self.decay = decay
        self.register_buffer("entries", torch.randn(size, dim))
        self.register_buffer("hits", torch.ones(size))
        self.register_buffer("sums", self.entries.clone())

    def lookup(self, x: torch.Tensor) -> torch.Tensor:
        dist = x.square().sum(1, keepdim=True) - 2 * x @ self.entries.T + self.entries.square().sum(1)
        return dist.argmin(1)

    def learn(self, x: torch.Tensor, ids: torch.Tensor) -> None:
        hits = torch.zeros_like(self.hits).index_add_(0, ids, x.new_ones(ids.shape[0]))
        sums = torch.zeros_like(self.sums).index_add_(0, ids, x)
        self.hits.lerp_(hits, 1 - self.decay)
        self.sums.lerp_(sums, 1 - self.decay)
        self.entries.copy_(self.sums / (self.hits + 1e-3)[:, None])
        spare = x.index_select(0, torch.randint(0, x.shape[0], (self.hits.shape[0],), device=x.device))
        self.entries.copy_(torch.where((self.hits < 0.05)[:, None], spare, self.entries))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ids = self.lookup(x)
        y = self.entries.index_select(0, ids)
        self.learn(x, ids)
        return y, ids


class Residual(nn.Module):
    def __init__(self, levels: int, size: int, dim: int):
        super().__init__()
        self.books = nn.ModuleList(Codebook(size, dim) for _ in range(levels))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rest, total, ids = x, torch.zeros_like(x), []
        for book in self.books:
            y, picked = book(rest)
            rest, total = rest - y, total + y
            ids.append(picked)
        return total, torch.stack(ids)


def build(device):
    torch.manual_seed(12)
    net = Residual(2, 8, 6).to(device)
    return net, (torch.randn(20, 6, device=device),)
