"""Beam search with a fixed history and no reads on the host."""

from dataclasses import dataclass

import torch
from torch import nn

EOS = 2


@dataclass(frozen=True)
class Limits:
    width: int = 4
    vocab: int = 32
    hidden: int = 16
    longest: int = 64


class Beams:
    def __init__(self, limits, device):
        self.limits = limits
        self.scores = torch.zeros(limits.width, device=device)
        self.tokens = torch.ones(limits.width, dtype=torch.long, device=device)
        self.history = torch.zeros(limits.longest, limits.width, dtype=torch.long, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.finished = torch.zeros(limits.width, dtype=torch.bool, device=device)

    def advance(self, logp):
        total = self.scores.unsqueeze(1) + logp
        best, where = total.flatten().topk(self.limits.width)
        token = where % self.limits.vocab
        self.scores.copy_(best - best.max())
        self.tokens.copy_(token)
        self.history.index_copy_(0, self.position, token.unsqueeze(0))
        self.position.add_(1).remainder_(self.limits.longest)
        self.finished.logical_or_(token == EOS)
        return torch.div(where, self.limits.vocab, rounding_mode="floor")


class Search:
    def __init__(self, limits, device):
        self.embed = nn.Embedding(limits.vocab, limits.hidden).to(device)
        self.head = nn.Linear(limits.hidden, limits.vocab).to(device)
        self.beams = Beams(limits, device)

    @torch.no_grad()
    def step(self, context):
        hidden = self.embed(self.beams.tokens) + context
        return self.beams.advance(torch.log_softmax(self.head(hidden), dim=-1))


def build(device):
    limits = Limits()
    search = Search(limits, device)
    return search.step, (torch.randn(limits.width, limits.hidden, device=device),)
