"""A decoder of one layer with a cache of one row for each slot."""

import torch
import torch.nn as nn

VOCAB, WIDTH, LENGTH = 96, 32, 48


class Decoder(nn.Module):
    def __init__(self, slots: int):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.place = nn.Embedding(LENGTH, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, VOCAB)
        self.register_buffer("keys", torch.zeros(slots, LENGTH, WIDTH))
        self.register_buffer("values", torch.zeros(slots, LENGTH, WIDTH))
        self.register_buffer("range", torch.arange(LENGTH))

    def prefill(self, tokens: torch.Tensor, slot: int, start: int) -> None:
        """Writes the keys and values of one chunk of a prompt."""
        end = start + tokens.shape[0]
        hidden = self.embed(tokens) + self.place(self.range[start:end])
        _, k, v = self.qkv(hidden).chunk(3, -1)
        self.keys[slot, start:end] = k
        self.values[slot, start:end] = v

    def forward(self, tokens: torch.Tensor, places: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.embed(tokens) + self.place(places)).chunk(3, -1)
        self.keys[slots, places] = k
        self.values[slots, places] = v
        score = torch.einsum("rd,rld->rl", q, self.keys[slots]) / WIDTH**0.5
        score = score.masked_fill(self.range > places.unsqueeze(1), -1e9)
        return self.out(torch.einsum("rl,rld->rd", score.softmax(-1), self.values[slots]))
