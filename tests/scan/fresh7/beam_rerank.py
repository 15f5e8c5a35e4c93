"""One beam-search expansion with constraint masks and a rerank by length-normalised score."""
from typing import NamedTuple

import torch
import torch.nn as nn


class Beams(NamedTuple):
    last: torch.Tensor      # [beams]
    score: torch.Tensor     # [beams]
    length: torch.Tensor    # [beams]
    done: torch.Tensor      # [beams] bool


class Constraint:
    """Tokens which may never follow: a fixed list, and repeats of the last token."""

    def __init__(self, vocab, banned, device):
        self.vocab = vocab
        self.banned = banned
        self.fill = torch.full((), -1e9, device=device)

    def __call__(self, logp, last):
        logp = logp.scatter(1, last.unsqueeze(1), self.fill.expand(last.shape[0], 1))
        logp[:, self.banned] = -1e9
        return logp


class Ngram(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.up = nn.Linear(width, 4 * width)
        self.out = nn.Linear(4 * width, vocab)

    def forward(self, ids):
        return self.out(torch.tanh(self.up(self.emb(ids)))).log_softmax(-1)


class Expander:
    def __init__(self, model, constraint, beams, alpha=0.6):
        self.model, self.constraint = model, constraint
        self.beams, self.alpha = beams, alpha

    def penalty(self, length):
        return ((5.0 + length.float()) / 6.0) ** self.alpha

    @torch.no_grad()
    def __call__(self, last, score, length, done):
        state = Beams(last, score, length, done)
        logp = self.constraint(self.model(state.last), state.last)
        total = state.score.unsqueeze(1) + logp
        total = torch.where(state.done.unsqueeze(1), state.score.unsqueeze(1), total)
        best, flat = total.flatten().topk(self.beams)
        vocab = logp.shape[1]
        parent = torch.div(flat, vocab, rounding_mode="floor")
        token = flat % vocab
        new_len = state.length[parent] + (~state.done[parent]).long()
        finished = state.done[parent] | (token == 2)
        closed = best[finished] / self.penalty(new_len)[finished]
        if finished.all():
            ranked = closed.sort(descending=True).values
            return token, best + 0.0 * ranked.sum(), new_len, finished
        floor = closed.sum() * 0.0
        return token, best + floor, new_len, finished


def build(device, beams: int = 6, vocab: int = 300):
    torch.manual_seed(3)
    model = Ngram(vocab, 32).to(device).eval()
    step = Expander(model, Constraint(vocab, [0, 1, 5, 9], device), beams)
    last = torch.randint(10, vocab, (beams,), device=device)
    score = -torch.rand(beams, device=device)
    length = torch.randint(1, 9, (beams,), device=device)
    done = torch.zeros(beams, dtype=torch.bool, device=device)
    done[1] = True
    return step, (last, score, length, done)
