"""A draft and a target model of the same form; both keep their cache in buffers."""

import torch
import torch.nn as nn

VOCAB, LENGTH = 64, 48


class Decoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.embed = nn.Embedding(VOCAB, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, VOCAB)
        self.register_buffer("keys", torch.zeros(LENGTH, width))
        self.register_buffer("values", torch.zeros(LENGTH, width))

    def forward(self, tokens, start):
        """Reads tokens that stand at `start` and after; the cache before it is used as it is."""
        count = tokens.shape[0]
        q, k, v = self.qkv(self.embed(tokens)).chunk(3, -1)
        self.keys[start : start + count].copy_(k)
        self.values[start : start + count].copy_(v)
        score = q @ self.keys[: start + count].T / self.width**0.5
        later = torch.ones(count, start + count, dtype=torch.bool, device=tokens.device).triu(start + 1)
        return self.head(score.masked_fill(later, -1e9).softmax(-1) @ self.values[: start + count])
