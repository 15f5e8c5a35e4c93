"""A small recurrent language model."""

import torch.nn as nn

VOCAB, WIDTH = 50, 40


class TinyLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.cells = nn.ModuleList(nn.GRUCell(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, token, states):
        hidden, after = self.embed(token), []
        for cell, state in zip(self.cells, states, strict=True):
            hidden = cell(hidden, state)
            after.append(hidden)
        return self.head(hidden), after
