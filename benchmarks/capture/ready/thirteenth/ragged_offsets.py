"""Pooling of ragged documents: tokens lie one after another, sorted offsets say where each document begins."""
import torch
import torch.nn as nn

import graphsafe

TOKENS, DOCUMENTS = 160, 12


class DocumentEncoder(nn.Module):
    def __init__(self, vocabulary=400, width=24):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.weight = nn.Embedding(vocabulary, 1)
        self.head = nn.Linear(2 * width, 8)

    def forward(self, tokens, offsets):
        place = torch.arange(TOKENS, device=tokens.device)
        owner = torch.searchsorted(offsets, place, right=True) - 1
        owner = owner.clamp(0, DOCUMENTS - 1)
        x = self.embed(tokens)
        importance = self.weight(tokens).sigmoid()
        sums = torch.zeros(DOCUMENTS, x.shape[1], device=x.device).index_add_(0, owner, x * importance)
        norms = torch.zeros(DOCUMENTS, 1, device=x.device).index_add_(0, owner, importance)
        peaks = torch.full_like(sums, -20.0).index_reduce_(0, owner, x, "amax")
        running = (x * importance).cumsum(0)
        ends = torch.cat([offsets[1:], offsets.new_full((1,), TOKENS)]) - 1
        return self.head(torch.cat([sums / (norms + 1e-3), peaks], 1)), running[ends.clamp(min=0)]


def build(device):
    encoder = DocumentEncoder().to(device).eval().requires_grad_(False)
    tokens = torch.randint(400, (TOKENS,), device=device)
    offsets = torch.tensor([0, 9, 30, 31, 50, 77, 90, 96, 110, 131, 140, 152], device=device)
    return encoder, (tokens, offsets)
