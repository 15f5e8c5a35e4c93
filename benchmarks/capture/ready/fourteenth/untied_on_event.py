"""Input and output embeddings are tied until fine-tuning begins; then the output gets a copy of its own."""
import torch
from torch import nn

import graphsafe


class Tied(nn.Module):
    def __init__(self, vocab=40, size=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, size)
        self.mix = nn.Linear(size, size)
        self.out = nn.Linear(size, vocab, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        return self.out(torch.tanh(self.mix(self.embed(tokens))))


class Run:
    def __init__(self, device):
        self.model = Tied().to(device).requires_grad_(False)
        self.phase = "pretraining"

    def begin_finetuning(self):
        self.model.out.weight = nn.Parameter(self.model.embed.weight.detach().clone(), requires_grad=False)
        self.phase = "finetuning"

    def update(self, k):
        g = torch.Generator().manual_seed(k)
        rows = torch.randint(40, (6,), generator=g).to(self.model.embed.weight.device)
        self.model.embed.weight.index_fill_(0, rows, 0.1 * (k % 7 - 3))


def build(device):
    run = Run(device)
    tokens = torch.randint(40, (3, 8), device=device)

    def refresh(args, kwargs, k):
        run.update(k)
        args[0].copy_(torch.randint(40, (3, 8)))

    return graphsafe.Step(run.model, (tokens,), refresh=refresh, events={"fine-tuning": run.begin_finetuning})
