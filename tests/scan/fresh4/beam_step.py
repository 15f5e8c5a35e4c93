"""One expansion of a beam search over a toy language model."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(eq=False)
class Beam:
    parent: int
    token: torch.Tensor
    score: torch.Tensor

    def __lt__(self, other: "Beam"):
        return self.score < other.score


class Bigram(nn.Module):
    def __init__(self, vocab: int, dim: int = 16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.embed(token))).log_softmax(-1)


class BeamSearch:
    def __init__(self, lm: nn.Module, width: int, max_len: int, device: torch.device, alpha=0.7):
        self.lm, self.width, self.alpha = lm, width, alpha
        self.length = torch.ones((), device=device)
        self.paths = torch.zeros(width, max_len, dtype=torch.long, device=device)
        self.archive = torch.zeros_like(self.paths)
        self.side = torch.cuda.Stream(device) if device.type == "cuda" else None

    def expand(self, last: torch.Tensor, scores: torch.Tensor) -> list[Beam]:
        logp, tokens = self.lm(last).topk(self.width, dim=-1)
        return [
            Beam(parent, token, scores[parent] + gain)
            for parent in range(self.width)
            for token, gain in zip(tokens[parent], logp[parent])
        ]

    def keep(self) -> None:
        """Park a copy of the paths for the reader of partial results."""
        if self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.archive.copy_(self.paths)

    @torch.no_grad()
    def __call__(self, last: torch.Tensor, scores: torch.Tensor):
        beams = sorted(self.expand(last, scores), reverse=True)[: self.width]
        parents = [beam.parent for beam in beams]
        token = torch.stack([beam.token for beam in beams])
        self.paths.copy_(self.paths[parents].roll(-1, dims=1))
        self.paths[:, -1] = token
        self.length.add_(1)
        penalty = ((5 + self.length) / 6) ** self.alpha
        self.keep()
        best = torch.stack([beam.score for beam in beams])
        return token, best, best / penalty


def build(device):
    torch.manual_seed(0)
    search = BeamSearch(Bigram(24).to(device), width=4, max_len=10, device=device)
    last = torch.randint(0, 24, (4,), device=device)
    return search, (last, torch.zeros(4, device=device))
