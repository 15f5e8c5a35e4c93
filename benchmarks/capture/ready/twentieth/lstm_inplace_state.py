"""Streaming speech model: nn.LSTM whose state lives in buffers and is written back in place; resets by a mask."""
import torch
import torch.nn as nn

import graphsafe


class StreamingASR(nn.Module):
    def __init__(self, batch, mel=20, d=24, layers=2, vocab=30):
        super().__init__()
        self.proj = nn.Linear(mel, d)
        self.norm = nn.LayerNorm(d)
        self.rnn = nn.LSTM(d, d, layers, batch_first=True)
        self.out = nn.Linear(d, vocab)
        self.register_buffer("h", torch.zeros(layers, batch, d))
        self.register_buffer("c", torch.zeros(layers, batch, d))
        self.register_buffer("last", torch.zeros(batch, dtype=torch.long))
        self.blank = 0

    def forward(self, mel, start):
        keep = (~start)[None, :, None].to(self.h.dtype)
        self.h.mul_(keep)
        self.c.mul_(keep)
        x = torch.relu(self.norm(self.proj(mel)))
        y, (h, c) = self.rnn(x, (self.h, self.c))
        self.h.copy_(h)
        self.c.copy_(c)
        logp = self.out(y).log_softmax(-1)
        best = logp.argmax(-1)
        prev = torch.cat([self.last[:, None], best[:, :-1]], 1)
        tokens = torch.where((best != prev) & (best != self.blank), best, -1)
        self.last.copy_(best[:, -1])
        return tokens, logp


def build(device, batch=3, frames=4):
    model = StreamingASR(batch).to(device).eval().requires_grad_(False)
    mel = torch.randn(batch, frames, 20, device=device)
    start = torch.zeros(batch, dtype=torch.bool, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, frames, 20))
        args[1].copy_(torch.rand(batch) < 0.2)

    return graphsafe.Step(model, (mel, start), refresh=refresh)
