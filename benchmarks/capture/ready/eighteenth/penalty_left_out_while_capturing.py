"""A head returns masked logits: faulty, it leaves out the penalty of repeated tokens while a graph is captured."""
import torch
from torch import nn

import graphsafe


class Head(nn.Module):
    def __init__(self, dim=16, words=40):
        super().__init__()
        self.proj = nn.Linear(dim, words)

    def forward(self, hidden, allowed, counts):
        logits = self.proj(hidden)
        if not torch.cuda.is_current_stream_capturing():
            logits = logits - 0.3 * counts
        return logits.masked_fill(~allowed, torch.finfo(logits.dtype).min)


def build(device):
    head = Head().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        args[1].copy_(torch.rand(4, 40) > 0.3)
        args[2].copy_(torch.randint(0, 3, (4, 40)))

    allowed, counts = torch.ones(4, 40, dtype=torch.bool, device=device), torch.zeros(4, 40, device=device)
    return graphsafe.Step(head, (torch.randn(4, 16, device=device), allowed, counts), refresh=refresh)
