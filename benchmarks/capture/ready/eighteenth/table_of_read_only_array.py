"""A step holds lengths of words as a read-only array: sound, only the loop reads it, for its log."""
import numpy as np
import torch
from torch import nn

import graphsafe


class Tagger(nn.Module):
    def __init__(self, words=20, dim=8):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.head = nn.Linear(dim, 4)
        self.lengths = np.frombuffer(bytes(range(words)), dtype=np.uint8)

    def forward(self, tokens):
        return self.head(self.embed(tokens))


def build(device):
    tagger = Tagger().to(device).requires_grad_(False)
    log = []

    def refresh(args, kwargs, k):
        tokens = torch.randint(0, 20, (6,))
        log.append(int(tagger.lengths[tokens.numpy()].sum()))
        args[0].copy_(tokens)

    return graphsafe.Step(tagger, (torch.randint(0, 20, (6,)).to(device),), refresh=refresh)
