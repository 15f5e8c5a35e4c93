"""The plainest sampling loop: softmax with temperature, torch.multinomial, the id written back for the next step."""
import torch
import torch.nn as nn

import graphsafe


class CharRNN(nn.Module):
    def __init__(self, vocab=50, d=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.cell = nn.GRUCell(d, d)
        self.out = nn.Linear(d, vocab)

    def forward(self, ids, h):
        h = self.cell(self.emb(ids), h)
        return self.out(h), h


class Decoder:
    def __init__(self, device, batch=4):
        self.model = CharRNN().to(device).eval().requires_grad_(False)
        self.ids = torch.zeros(batch, dtype=torch.long, device=device)
        self.h = torch.zeros(batch, 24, device=device)
        self.temperature = torch.tensor(0.9, device=device)

    def step(self):
        logits, h = self.model(self.ids, self.h)
        probs = (logits / self.temperature).softmax(-1)
        token = torch.multinomial(probs, num_samples=1).squeeze(1)
        self.ids.copy_(token)
        self.h.copy_(h)
        return token, probs

    def reset(self):
        self.ids.zero_()
        self.h.zero_()


def build(device):
    d = Decoder(device)

    def refresh(args, kwargs, k):
        d.temperature.fill_(0.6 + 0.1 * (k % 6))

    return graphsafe.Step(d.step, refresh=refresh, reset=d.reset)
