"""Top-k filtering with the k of the current request (a Python attribute)."""
import torch
import torch.nn as nn

import graphsafe


class Request:
    def __init__(self, top_k=10, repetition_penalty=1.0):
        self.top_k = top_k
        self.repetition_penalty = repetition_penalty


class Head(nn.Module):
    def __init__(self, d=24, vocab=80):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.lm = nn.Linear(d, vocab, bias=False)

    def forward(self, h):
        return self.lm(self.norm(h))


class Generator:
    def __init__(self, device):
        self.head = Head().to(device).requires_grad_(False)
        self.request = Request()

    def __call__(self, h):
        logits = self.head(h)
        kth = torch.topk(logits, self.request.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
        return logits.softmax(-1)


def build(device, batch=3):
    gen = Generator(device)
    h = torch.randn(batch, 24, device=device)

    def refresh(args, kwargs, k):
        gen.request = Request(top_k=[10, 20, 40][k % 3])
        args[0].copy_(torch.randn(batch, 24))

    return graphsafe.Step(gen, (h,), refresh=refresh)
