"""Asynchronous scheduling: sampled tokens go to pinned memory, and the scheduler waits for the stream before it reads them."""
import torch
from torch import nn

import graphsafe


class RecurrentDecoder(nn.Module):
    def __init__(self, vocabulary, width, depth, batch, device):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width).to(device)
        self.mix = nn.Parameter((torch.randn(width, width) / width ** 0.5 * 0.8).to(device))
        self.head = nn.Linear(width, vocabulary).to(device)
        self.depth = depth
        self.sampled = torch.zeros(batch, dtype=torch.int64, pin_memory=device.type == "cuda")
        self.ready = torch.cuda.Event()

    def forward(self, tokens):
        token = hidden = self.embed(tokens)
        for _ in range(self.depth):
            hidden = torch.tanh(torch.addmm(token, hidden, self.mix))
        logits = self.head(hidden)
        self.sampled.copy_(logits.argmax(-1), non_blocking=True)
        if not torch.cuda.is_current_stream_capturing():  # for the profiler of eager runs
            self.ready.record()
        return logits

    def collect(self):
        torch.cuda.current_stream().synchronize()
        return self.sampled.tolist()


def build(device, batch=4, vocabulary=97, width=64, depth=200):
    model = RecurrentDecoder(vocabulary, width, depth, batch, device).eval().requires_grad_(False)
    tokens = torch.randint(0, vocabulary, (batch,)).to(device)

    def refresh(args, kwargs, k):
        drafted = model.collect()
        args[0].copy_(torch.tensor([(5 * token + 3 * row + k) % vocabulary for row, token in enumerate(drafted)]))

    return graphsafe.Step(model, (tokens,), refresh=refresh)
