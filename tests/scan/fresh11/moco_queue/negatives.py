import torch


class NegativeQueue:
    """First-in first-out memory of key embeddings."""

    def __init__(self, size: int, dim: int, device: torch.device):
        self.size = size
        self.keys = torch.nn.functional.normalize(torch.randn(size, dim, device=device), dim=-1)

    def push(self, fresh: torch.Tensor) -> None:
        self.keys = torch.cat((fresh, self.keys))[: self.size]

    def similarity(self, queries: torch.Tensor) -> torch.Tensor:
        return queries @ self.keys.t()
