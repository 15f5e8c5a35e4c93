"""Mean pooling of packed sentences. The lengths come from the tokenizer as an `array.array`, as the wire has them."""
from array import array

import torch
from torch import nn

import graphsafe


class Pooler(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, lengths):
        h = torch.tanh(self.proj(x))
        rows = [h[i, :n].mean(0) for i, n in enumerate(lengths)]  # <-A
        return self.norm(torch.stack(rows))


def build(device, batch=4, tokens=16, width=24):
    model = Pooler(width).to(device).eval().requires_grad_(False)
    x = torch.randn(batch, tokens, width).to(device)
    lengths = array("i", [5, 9, 12, 16])
    return model, (x, lengths)  # <-B


def drive(args, kwargs, k):  # for the oracle: the next batch, written into the same objects
    args[0].copy_(torch.randn(args[0].shape))
    for i in range(len(args[1])):
        args[1][i] = 1 + (3 * k + 5 * i) % 16
