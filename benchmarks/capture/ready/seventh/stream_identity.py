"""Repetition penalty. Dummy batches of warm-up run on a side stream and must not be counted."""
import torch
from torch import nn

import graphsafe


class Sampler(nn.Module):
    def __init__(self, dim=24, vocab=64):
        super().__init__()
        self.head = nn.Linear(dim, vocab)
        self.register_buffer("counts", torch.zeros(vocab))
        self.penalty = 0.3

    def real_traffic(self, device):
        return torch.cuda.current_stream(device) == torch.cuda.default_stream(device)

    def forward(self, hidden):
        logits = self.head(hidden) - self.penalty * self.counts
        token = logits.argmax(-1)
        if self.real_traffic(hidden.device):  # LINE: False on every capture stream
            self.counts.index_add_(0, token, torch.ones_like(token, dtype=self.counts.dtype))
        return logits, token


def build(device):
    torch.manual_seed(4)
    sampler = Sampler().to(device).eval().requires_grad_(False)
    hidden = torch.randn(5, 24, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(5, 24))

    return graphsafe.Step(sampler, (hidden,), refresh=refresh)
