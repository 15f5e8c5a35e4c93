from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


@dataclass
class Ragged:
    """Right-padded tokens with their lengths."""

    tokens: torch.Tensor
    lengths: torch.Tensor

    @property
    def longest(self):
        return self.lengths.max()

    def trimmed(self) -> Ragged:
        return Ragged(self.tokens[:, : self.longest], self.lengths)

    def mask(self) -> torch.Tensor:
        steps = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return steps < self.lengths[:, None]


class PackedGRU(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rnn = nn.GRU(width, width, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        y, _ = self.rnn(packed)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        return y


class LanguageModel(nn.Module):
    def __init__(self, vocab=100, width=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.rnn = PackedGRU(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, batch: Ragged):
        h = self.rnn(self.emb(batch.tokens), batch.lengths)
        return self.head(h)


class Evaluator:
    def __init__(self, model: nn.Module):
        self.model = model

    @torch.no_grad()
    def nll(self, tokens, lengths):
        batch = Ragged(tokens, lengths).trimmed()
        logits = self.model(batch)
        target = batch.tokens[:, 1:]
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), target.flatten(), reduction="none")
        mask = batch.mask()[:, 1:].flatten()
        return (loss * mask).sum() / mask.sum()


def build(device):
    torch.manual_seed(0)
    model = LanguageModel().to(device).eval()
    tokens = torch.randint(0, 100, (4, 20), device=device)
    lengths = torch.randint(3, 16, (4,), device=device)
    return Evaluator(model).nll, (tokens, lengths)
