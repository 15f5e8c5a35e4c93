"""Reranker behind a tokeniser in pure Python (byte pairs, slow); the rare query with many rare words turns off truncation."""
import random

import torch
import torch.nn as nn

import graphsafe

ALPHABET = "etaoinshrdlu"


class Tokeniser:
    def __init__(self):
        pairs = [a + b for a in ALPHABET for b in ALPHABET]
        self.ranks = {pair: i for i, pair in enumerate(pairs[:90])}
        self.ids = {t: i for i, t in enumerate([*ALPHABET, *pairs[:90]])}

    def encode(self, word):
        parts = list(word)
        while True:
            best = min(range(len(parts) - 1), key=lambda i: self.ranks.get(parts[i] + parts[i + 1], 999), default=None)
            if best is None or parts[best] + parts[best + 1] not in self.ranks:
                return [self.ids[p] for p in parts]
            parts[best : best + 2] = [parts[best] + parts[best + 1]]


class Reranker:
    LENGTH = 48

    def __init__(self, device):
        self.embed = nn.Embedding(102, 32).to(device).requires_grad_(False)
        self.score = nn.Linear(32, 1).to(device).requires_grad_(False)
        self.tokeniser = Tokeniser()
        self.ids = torch.zeros(8, self.LENGTH, dtype=torch.long, device=device)
        self.cut = 32

    def receive(self, args, kwargs, k):
        rows, longest = [], 0
        for _ in range(8):
            words = ["".join(random.choice(ALPHABET) for _ in range(3 + int(random.expovariate(0.12)))) for _ in range(30)]
            tokens = [t for w in words for t in self.tokeniser.encode(w)]
            longest = max(longest, max(map(len, words)))
            rows.append((tokens + [0] * self.LENGTH)[: self.LENGTH])
        self.ids.copy_(torch.tensor(rows))
        self.cut = self.LENGTH if longest > 80 else 32

    def step(self):
        x = self.embed(self.ids[:, : self.cut])
        weight = (x.square().sum(-1) / 8).softmax(-1)
        return self.score((weight[..., None] * x).sum(1)).squeeze(-1), weight.amax(-1)


def build(device):
    reranker = Reranker(device)
    return graphsafe.Step(reranker.step, (), {}, refresh=reranker.receive)
