"""Sampler whose temperature is a Python attribute; the server changes it per request."""
import torch
import torch.nn as nn

import graphsafe


class Sampler(nn.Module):
    def __init__(self, temperature=1.0):
        super().__init__()
        self.temperature = temperature

    def forward(self, logits):
        logits = logits / self.temperature
        probs = logits.float().softmax(-1)
        noise = torch.empty_like(probs).exponential_(1.0).clamp_min_(1e-10)
        return probs.div_(noise).argmax(-1)


class Engine:
    def __init__(self, device, vocab=64, d=32, batch=4):
        self.emb = nn.Embedding(vocab, d).to(device).requires_grad_(False)
        self.body = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, d)).to(device).requires_grad_(False)
        self.sampler = Sampler()
        self.ids = torch.zeros(batch, dtype=torch.long, device=device)

    def step(self):
        h = self.body(self.emb(self.ids))
        logits = h @ self.emb.weight.T
        return self.sampler(logits), logits

    def next_request(self, k):
        self.sampler.temperature = 0.5 + 0.25 * (k % 5)
        self.ids.copy_(torch.randint(0, 64, self.ids.shape))


def build(device):
    engine = Engine(device)
    return graphsafe.Step(engine.step, refresh=lambda a, kw, k: engine.next_request(k))
