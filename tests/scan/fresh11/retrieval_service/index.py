import torch
import torch.nn.functional as F


class DenseIndex:
    """Inner-product index with a fixed capacity; unused rows score -inf."""

    def __init__(self, dim: int, capacity: int, device: torch.device):
        self.vectors = torch.zeros(capacity, dim, device=device)
        self.penalty = torch.full((capacity,), float("-inf"), device=device)
        self.size = 0

    def add(self, rows: torch.Tensor) -> None:
        end = self.size + rows.shape[0]
        self.vectors[self.size:end].copy_(F.normalize(rows, dim=-1))
        self.penalty[self.size:end].zero_()
        self.size = end

    def search(self, queries: torch.Tensor, k: int):
        scores = F.normalize(queries, dim=-1) @ self.vectors.t() + self.penalty
        return scores.topk(k, dim=-1)

    def compact(self, keep: torch.Tensor) -> None:
        rows = self.vectors[keep]
        pad = self.vectors.shape[0] - rows.shape[0]
        self.vectors = F.pad(rows, (0, 0, 0, pad))
        self.penalty[: rows.shape[0]].zero_()
        self.penalty[rows.shape[0]:].fill_(float("-inf"))
        self.size = rows.shape[0]
