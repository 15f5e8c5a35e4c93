import torch
import torch.nn as nn


class Verifier(nn.Module):
    """Scores a run of draft tokens in one pass, causal inside the run."""

    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.embed(ids)
        run = h.cumsum(dim=1) / torch.arange(1, ids.shape[1] + 1, device=ids.device).view(1, -1, 1)
        return self.head(torch.tanh(self.mix(run)) + h)


class Drafter(nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, last: torch.Tensor, count: int) -> torch.Tensor:
        picks = [last]
        for _ in range(count):
            picks.append(self.head(self.embed(picks[-1])).argmax(-1))
        return torch.stack(picks, dim=1)
