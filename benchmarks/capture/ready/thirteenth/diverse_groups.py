"""Diverse beam search with groups: later groups are penalised for tokens that earlier groups took; state in place."""
import torch
import torch.nn as nn

import graphsafe

GROUPS, BEAMS, VOCABULARY = 3, 2, 40


class DiverseBeams:
    def __init__(self, device):
        self.embed = nn.Embedding(VOCABULARY, 24).to(device).requires_grad_(False)
        self.cell = nn.LSTMCell(24, 24).to(device).requires_grad_(False)
        self.h = torch.zeros(GROUPS, BEAMS, 24, device=device)
        self.c = torch.zeros(GROUPS, BEAMS, 24, device=device)
        self.tokens = torch.ones(GROUPS, BEAMS, dtype=torch.long, device=device)
        self.scores = torch.zeros(GROUPS, BEAMS, device=device)
        self.context = torch.zeros(24, device=device)

    def step(self):
        taken = torch.zeros(VOCABULARY, device=self.h.device)
        for g in range(GROUPS):
            h, c = self.cell(self.embed(self.tokens[g]) + self.context, (self.h[g], self.c[g]))
            logp = (h @ self.embed.weight.T).log_softmax(-1) - 0.5 * taken
            top, flat = (self.scores[g, :, None] * 0.9 + logp).flatten().topk(BEAMS)
            origin, token = torch.div(flat, VOCABULARY, rounding_mode="trunc"), flat.remainder(VOCABULARY)
            taken = taken.scatter_add(0, token, torch.ones_like(top))
            self.h[g].copy_(h[origin])
            self.c[g].copy_(c[origin])
            self.tokens[g].copy_(token)
            self.scores[g].copy_(top)
        return self.tokens, self.scores, taken

    def reset(self):
        for state in (self.h, self.c, self.scores):
            state.zero_()
        self.tokens.fill_(1)


def build(device):
    beams = DiverseBeams(device)
    return graphsafe.Step(beams.step, (), {}, refresh=lambda args, kwargs, k: beams.context.copy_(torch.randn(24)), reset=beams.reset)
