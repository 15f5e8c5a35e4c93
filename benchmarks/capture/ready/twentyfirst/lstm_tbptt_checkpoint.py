"""Truncated BPTT with an LSTM whose state is copied back, a checkpointed head, profiler ranges, an async assert."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import record_function
from torch.utils.checkpoint import checkpoint

import graphsafe


class CharRNN(nn.Module):
    def __init__(self, vocab=30, dim=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, dim, layers, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, state):
        h, state = self.rnn(self.embed(ids), state)
        h = h + checkpoint(self.mlp, h, use_reentrant=False, preserve_rng_state=False)
        return self.head(h), state


class Trainer:
    def __init__(self, device, batch=4):
        self.model = CharRNN().to(device)
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=1e-3, momentum=0.9, capturable=True)
        self.h = torch.zeros(2, batch, 16, device=device)
        self.c = torch.zeros(2, batch, 16, device=device)

    def step(self, ids, targets):
        self.opt.zero_grad(set_to_none=True)
        with record_function("forward"):
            logits, (h, c) = self.model(ids, (self.h, self.c))
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        torch._assert_async(torch.isfinite(loss))
        with record_function("backward"):
            loss.backward()
        self.opt.step()
        with torch.no_grad():
            self.h.copy_(h)
            self.c.copy_(c)
        return loss.detach()


def build(device):
    torch.manual_seed(14)
    t = Trainer(device)
    ids = torch.randint(30, (4, 9), device=device)

    def refresh(args, kwargs, k):
        text = torch.randint(30, (4, 10))
        args[0].copy_(text[:, :-1])
        args[1].copy_(text[:, 1:])

    return graphsafe.Step(t.step, (ids, torch.randint(30, (4, 9), device=device)), refresh=refresh)
