"""Two small language models that share a vocabulary: a draft and the one that checks it."""

import torch
import torch.nn as nn

VOCAB, ROWS, AHEAD = 72, 4, 3


class Draft(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.place = nn.Embedding(256, width)
        self.out = nn.Linear(width, VOCAB)

    def forward(self, token, place):
        return self.out(torch.tanh(self.embed(token) + self.place(place))).argmax(-1)


class Checker(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.place = nn.Embedding(256, width)
        self.mix = nn.Linear(width, width)
        self.out = nn.Linear(width, VOCAB)

    def forward(self, tokens, places):
        hidden = self.embed(tokens) + self.place(places)
        hidden = hidden + torch.relu(self.mix(hidden.cumsum(1)))
        return self.out(hidden).argmax(-1)
