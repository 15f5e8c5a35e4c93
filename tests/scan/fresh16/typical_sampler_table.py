"""Locally typical sampling; temperatures, banned tokens and the dice are on the device."""

import torch
import torch.nn as nn

ROWS, VOCAB, SEEN = 4, 120, 10


class TypicalSampler(nn.Module):
    def __init__(self, mass, temperatures, banned, explore):
        super().__init__()
        self.mass = mass
        self.explore = explore
        self.register_buffer("heat", torch.tensor(temperatures).unsqueeze(1))
        ban = torch.zeros(VOCAB, dtype=torch.bool)
        ban[banned] = True
        self.register_buffer("ban", ban)

    def typical(self, logits):
        logp = logits.log_softmax(-1)
        surprise = (logp.exp() * logp.clamp(min=-1e4)).sum(-1, keepdim=True)
        order = (surprise - logp).abs().argsort(-1)
        total = logp.gather(-1, order).exp().cumsum(-1)
        drop = (total > self.mass).roll(1, -1)
        drop[:, :1].zero_()
        return logits.masked_fill(torch.zeros_like(drop).scatter(-1, order, drop), float("-inf"))

    def penalize(self, logits, seen):
        score = logits.gather(-1, seen)
        return logits.scatter(-1, seen, torch.where(score > 0, score / 1.2, score * 1.2))

    def forward(self, logits, seen):
        logits = (self.penalize(logits, seen) / self.heat).masked_fill(self.ban, -1e9)
        flat = torch.rand(logits.shape[0], 1, device=logits.device) < self.explore
        logits = self.typical(torch.where(flat, 0.5 * logits, logits))
        return (logits.softmax(-1) / torch.empty_like(logits).exponential_(1)).argmax(-1)


class Drawer(nn.Module):
    """The head of a language model and its sampler."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, VOCAB)
        self.sampler = TypicalSampler(0.9, [0.7, 1.0, 1.0, 1.3], banned=[0, 2, 5], explore=0.5)

    @torch.no_grad()
    def forward(self, hidden, seen):
        return self.sampler(self.head(hidden), seen)


def build(device):
    torch.manual_seed(4)
    hidden = torch.randn(ROWS, 16, device=device)
    seen = torch.randint(0, VOCAB, (ROWS, SEEN), device=device)
    return Drawer().to(device).eval(), (hidden, seen)
