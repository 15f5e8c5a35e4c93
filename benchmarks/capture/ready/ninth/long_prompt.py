"""Pooling over prompts whose lengths the scheduler keeps in pinned memory; very long batches lose their oldest tokens."""
import torch
from torch import nn

import graphsafe

WINDOW = 48


class PromptPool(nn.Module):
    def __init__(self, width, limit, device, batch):
        super().__init__()
        self.key = nn.Linear(width, 1).to(device)
        self.place = torch.arange(limit, device=device)
        self.lengths = torch.zeros(batch, dtype=torch.int64, device=device)

    def forward(self, tokens, lengths):
        self.lengths.copy_(lengths, non_blocking=True)
        live = self.place < self.lengths[:, None]
        longest = int(lengths.max())  # <-B
        if longest > WINDOW:
            live = live & (self.place >= longest - WINDOW)  # <-A
        scores = self.key(tokens).squeeze(-1).masked_fill(~live, -1e4)
        return torch.einsum("bl,blw->bw", torch.softmax(scores, dim=-1), tokens)


def build(device, batch=4, width=16, limit=64):
    model = PromptPool(width, limit, device, batch).eval().requires_grad_(False)
    tokens = torch.randn(batch, limit, width).to(device)
    lengths = torch.tensor([40, 7, 23, 31]).pin_memory()
    return graphsafe.Step(model, (tokens, lengths))


def drive(args, kwargs, k):  # real traffic, for the oracle: most prompts are short
    args[0].copy_(torch.randn(args[0].shape))
    args[1].copy_(torch.randint(3, 45, args[1].shape))
    if k % 8 == 7:
        args[1][0] = 60
