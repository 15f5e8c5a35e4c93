"""Sampling head of a small serving stack: penalties, temperature, nucleus."""
import torch
from torch import nn


class TokenPicker(nn.Module):
    def __init__(self, rows, vocab, device, penalty=0.3, seed=11):
        super().__init__()
        self.penalty = penalty
        self.stuck = [0] * rows
        self.gen = torch.Generator(device=device)
        self.gen.manual_seed(seed)
        self.register_buffer("seen", torch.zeros(rows, vocab, device=device))
        self.register_buffer("one", torch.ones(rows, 1, device=device))
        self.trail = torch.zeros(rows, 1, dtype=torch.long, device=device)

    def _nucleus(self, logits, top_p):
        ordered, ids = logits.sort(dim=-1, descending=True)
        mass = ordered.softmax(dim=-1)
        outside = mass.cumsum(dim=-1) - mass > top_p.unsqueeze(-1)
        return ordered.masked_fill(outside, float("-inf")), ids

    def forward(self, logits, temperature, top_p):
        if (temperature < 1e-4).all():
            return logits.argmax(dim=-1, keepdim=True)
        logits = logits - self.penalty * self.seen
        logits = logits / temperature.clamp_min(1e-4).unsqueeze(-1)
        ordered, ids = self._nucleus(logits, top_p)
        draw = torch.multinomial(ordered.softmax(-1), 1, generator=self.gen)
        token = ids.gather(-1, draw)
        self.seen.scatter_add_(1, token, self.one)
        self.trail = torch.cat((self.trail, token), dim=1)
        self.stuck = (self.trail == token).sum(dim=1).tolist()
        return token


def build(device):
    torch.manual_seed(3)
    rows, vocab = 4, 96
    picker = TokenPicker(rows, vocab, device)
    logits = torch.randn(rows, vocab, device=device)
    temperature = torch.rand(rows, device=device) + 0.5
    top_p = torch.rand(rows, device=device) * 0.5 + 0.4
    return picker, (logits, temperature, top_p)
