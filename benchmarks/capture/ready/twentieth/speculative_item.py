"""Speculative decoding verification: the number of accepted tokens is read on the host and used as a slice."""
import torch
import torch.nn as nn

import graphsafe


class Target(nn.Module):
    def __init__(self, vocab=40, d=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.Linear(d, d)
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        h = self.emb(ids)
        h = torch.cumsum(torch.tanh(self.rnn(h)), dim=1)
        return self.head(h)


class Verifier:
    def __init__(self, device, length=64):
        self.model = Target().to(device).requires_grad_(False)
        self.sequence = torch.zeros(1, length, dtype=torch.long, device=device)
        self.pos = torch.zeros(1, dtype=torch.long, device=device)

    def __call__(self, draft):
        logits = self.model(draft)
        greedy = logits.argmax(-1)
        match = (greedy[:, :-1] == draft[:, 1:]).long()
        n = int(match.cumprod(1).sum())
        accepted = greedy[:, : n + 1]
        out = self.sequence.clone()
        out[:, : n + 1] = accepted
        return out, logits


def build(device, k=5):
    v = Verifier(device)
    draft = torch.randint(0, 40, (1, k), device=device)
    return graphsafe.Step(v, (draft,), refresh=lambda a, kw, i: a[0].copy_(torch.randint(0, 40, (1, k))))
